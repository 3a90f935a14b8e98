// SPDX-License-Identifier: MIT
// The table of incidents.

const LOOKS = ["critical", "error", "warning", "info"];

// A link only where it leads to the web; else its text.
function safeLink(text) {
	let url = null;
	try {
		url = new URL(text);
	} catch (e) {
		return foreign(text);
	}
	if (url.protocol !== "http:" && url.protocol !== "https:")
		return foreign(text);
	return el("a", { href: url.href, rel: "noreferrer noopener", target: "_blank" }, foreign(text));
}

function severityBadge(severity) {
	const look = severityLook(severity);
	return el("span.badge." + look, el("span", { "aria-hidden": "true" }, LOOK_SIGN[look] + " "),
		foreign(severity || "?"));
}

const STATE_TEXT = { firing: "still firing", resolved: "resolved", single: "single" };

function incidentDetails(story, x) {
	const zoom = el("button", { onclick: () =>
		showMoment(x.begin_usec, Math.max(x.begin_usec, x.end_usec || x.last_usec || 0)) },
		"Show in the plots");
	return el("div.unfolded", el("p.message", foreign(x.message || "")),
		x.caveat ? el("p.caveat", el("b", "Caveat: "), foreign(x.caveat)) : null,
		factList([["Rule", x.rule], ["Event", x.event], ["Scope", x.scope],
			["Process", processButton(story, x.process)],
			["Device", story.deviceName(x.device)], ["Host", story.hosts.length > 1 ?
				story.hostName(x.host) : null],
			["Began", formatMoment(x.begin_usec) + (x.before ? " (before this stretch)" : "")],
			["Last told", x.last_usec > x.begin_usec ? formatMoment(x.last_usec) : null],
				["Ended", x.end_usec ? formatMoment(x.end_usec) : null],
			["Value", formatValue(x.value, x.value_unit)],
				["Highest", formatValue(x.peak_value, x.value_unit)],
			["Limit", formatValue(x.limit, x.value_unit)],
			["Growth", x.growth_bytes_per_hour ? formatBytes(x.growth_bytes_per_hour) + " an hour" : null],
			["Full in", x.full_in_sec ? formatDuration(x.full_in_sec * SECOND) : null],
				["Leaked", formatBytes(x.leaked_bytes)],
			["Confidence", isKnown(x.confidence) ? formatShare(x.confidence, 1) : null],
			["Records", formatCount(x.records)], ["Incident", x.id ? el("code", x.id) : null],
			["Runbook", x.documentation ? safeLink(x.documentation) : null]]),
		stackView(story, x.stack, "Stack"), zoom);
}

// Puts a moment or a stretch into view, with some room about it, and goes to the plots.
function showMoment(from, to) {
	const room = Math.max(5 * MINUTE, (to - from) * 0.2);
	State.setView(from - room, to + room);
	State.setCursor(from);
	byId("devices").scrollIntoView();
}

function incidentColumns(story) {
	return [
		{ name: "Began", class: "time", key: x => x.begin_usec, cell: x => (x.before ? "before " : "") +
			formatMoment(x.begin_usec) },
		{ name: "Severity", class: "severity", key: x => severityRank(x.severity),
			cell: x => severityBadge(x.severity) },
		{ name: "Rule", class: "rule", key: x => x.rule || x.event || null,
			cell: x => foreign(clip(x.rule || x.event || NONE, 60)) },
		{ name: "About", class: "subject", key: x => x.subject || null,
			cell: x => foreign(clip(x.subject || NONE, 80)) },
		{ name: "State", class: "state", key: x => x.state, cell: x => STATE_TEXT[x.state] || x.state },
		{ name: "Lasted", class: "num", descends: true, key: x => x.duration_sec,
			cell: x => x.state === "single" || x.duration_sec === null ? NONE :
			formatDuration(x.duration_sec * SECOND) },
		{ name: "Highest", class: "num", descends: true, key: x => x.peak_value ?? x.value,
			cell: x => formatValue(x.peak_value ?? x.value,
			x.value_unit) },
		{ name: "What was said", class: "said", cell: x => foreign(clip(x.message || "", 200)) },
	];
}

function incidentWords(story, x) {
	const p = story.processes[x.process];
	return { host: story.hostName(x.host), ...(p ? p.words : {}), about: x.subject, rule: x.rule, said: x.message };
}

function buildIncidents(story) {
	const off = new Set();
	let state = "";
	const count = look => story.incidents.filter(x => severityLook(x.severity) === look).length;
	const table = new Table(incidentColumns(story), { label: "incidents", rows: story.incidents, pageSize: 50,
		id: x => "incident-" + x.number, name: x => x.severity + " " + x.subject + " " +
			formatMoment(x.begin_usec),
		details: x => incidentDetails(story, x), none: "No incident matches.",
		mark: (tr, x) => {
			tr.classList.add("look-" + severityLook(x.severity));
			tr.classList.toggle("picked", State.picked !== null && x.process === State.picked);
		} });
	const filter = () => table.setRows(story.incidents.filter(x => !off.has(severityLook(x.severity)) &&
		(!state || x.state === state) &&
		(!State.test || State.test(incidentWords(story, x)))));
	const looks = LOOKS.filter(count).map(look => {
		const box = el("input", { type: "checkbox", checked: true });
		on(box, "change", () => {
			if (box.checked)
				off.delete(look);
			else
				off.add(look);
			filter();
		});
		const name = look === "info" ? "notice and info" : look === "critical" ? "critical and above" : look;
		return { look, box, label: el("label.chip." + look, box, LOOK_SIGN[look] + " " + name + " ",
			el("b", formatCount(count(look)))) };
	});
	const select = el("select", { "aria-label": "State" }, el("option", { value: "" }, "every state"),
		Object.entries(STATE_TEXT).map(([k, v]) => el("option", { value: k }, v)));
	on(select, "change", () => {
		state = select.value;
		filter();
	});
	State.on("filter", filter);
	State.on("pick look", () => table.show());
	State.on("open-incident", number => {
		if (table.reveal(story.incidents[number]))
			return;
		// It is filtered out here: what was asked for is shown nevertheless.
		off.clear();
		state = select.value = "";
		looks.forEach(l => {
			l.box.checked = true;
		});
		table.setRows(story.incidents);
		table.reveal(story.incidents[number]);
	});
	return section("incidents", "Incidents",
		story.incidents.length ? el("div.card", el("div.chips", looks.map(l => l.label), select), table.root) :
			el("p.card.empty", "No incident was recorded in this stretch."));
}
