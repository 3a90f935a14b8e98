// SPDX-License-Identifier: MIT
// Reads a JSON list of LogQL expressions, writes for each a list of where Grafana's grammar finds an error.
import { readFileSync } from "node:fs";
import { parser } from "@grafana/lezer-logql";

const out = [];
for (const text of JSON.parse(readFileSync(0, "utf8"))) {
	const errors = [];
	parser.parse(text).iterate({
		enter(node) {
			if (node.type.isError)
				errors.push(`at ${node.from}: ...${text.slice(Math.max(0, node.from - 30), node.from)} >>> ${text.slice(node.from, node.from + 30)}`);
		},
	});
	out.push(errors);
}
process.stdout.write(JSON.stringify(out));
