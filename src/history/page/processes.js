// SPDX-License-Identifier: MIT
// The table of processes: each with its memory over time in small, unfolded with a plot for each device it held memory on.

// Memory of one process over all its devices, at most in each column.
function drawSpark(canvas, p, w) {
	const h = 30;
	const g = canvasContext(canvas, w, h);
	if (!g)
		return;
	if (!p.stack)
		p.stack = new Stack(p.held.map(x => x.series));
	const n = Math.floor(w), cols = p.stack.columns(State.from, State.to, n), max = Math.max(p.peak_bytes || 0, 1);
	const y = v => h - 1 - Math.min(1, v / max) * (h - 3);
	for (const [values, alpha] of [[cols.bound, 0.35], [cols.total, 1]]) {
		g.globalAlpha = alpha;
		g.fillStyle = Look.process(p.number);
		for (let c = 0; c < n; c++)
			if (values[c] > 0)
				g.fillRect(c, y(values[c]), 1, h - y(values[c]));
	}
	g.globalAlpha = 1;
	g.fillStyle = Look.colours.line;
	g.fillRect(0, h - 1, w, 1);
}

// Of each that is unfolded: shown while it is in the page.
const processPlots = new Set();

function processPlot(story, p, h) {
	const d = h.device === null ? story.nameless.get(p.host) : story.devices[h.device];
	const marks = deviceMarks({ incidents: story.incidents.filter(x => x.process === p.number),
		failures: story.failures.filter(x => x.process === p.number), concerns: story.concerns }, d);
	const plot = new Plot({ layers: [{ process: p, series: h.series, peak: h.peak_bytes }], capacity: null,
		used: null, host: p.host, marks,
		peak: h.peak_bytes ? { bytes: h.peak_bytes, usec: h.peak_usec } : null,
		label: "Memory of " + clip(p.name, 80) + " on " + d.name +
			" over time. Arrow keys move in time, plus and minus zoom." },
	{ compact: true, onRead: r => {
		const v = r && r.values.get(p.number);
		const text = v ? formatMoment(r.usec, Math.min(r.step, SECOND)) + ": " + formatBytes(v.bytes) +
			", between samples " + formatBytes(v.bounds[0]) +
			" to " + formatBytes(v.bounds[1]) : "at most " + formatBytes(h.peak_bytes) + " at " +
				formatMoment(h.peak_usec);
		said.textContent = text;
	} });
	const said = el("span.note");
	processPlots.add(plot);
	plot.redraw();
	return el("figure", el("figcaption", el("b", foreign(d.name)), " ", said), plot.root);
}

function endText(p) {
	return p.cut ? "its end was not recorded" : p.ended ? "ended" : "still there";
}

function processDetails(story, p) {
	const known = [["Command", p.cmdline], ["Executable", p.exe], ["User", p.user], ["Unit", p.unit],
		["Host", story.hostName(p.host)],
		["Container", p.container_name || p.container], ["Pod", p.pod],
		["Slurm job", p.slurm_job], ["Tag", p.tag]];
	const told = [["First heard of", formatMoment(p.first_usec)], ["Last heard of", formatMoment(p.last_usec)],
		["End", p.end_usec ? formatMoment(p.end_usec) : endText(p)],
			["Most held", formatBytes(p.peak_bytes) + " at " + formatMoment(p.peak_usec)],
		[p.ended ? "Held at its end" : "Held when last seen", formatBytes(p.live_bytes)],
			["Host memory", formatBytes(p.host_bytes)],
		["Managed memory", formatBytes(p.managed_bytes)], ["Driver's figure", formatBytes(p.driver_bytes)],
			["Allocated in all", formatBytes(p.allocated_bytes)],
		["Allocations", formatCount(p.alloc_count)], ["Frees", formatCount(p.free_count)],
			["Failed", formatCount(p.fail_count)],
		["Lost events", p.lost_events ? formatCount(p.lost_events) : null],
			["Books", p.exact ? "exact" : "not exact: something was missed"]];
	return el("div.unfolded", factList(known), factList(told),
		el("div.figures", p.held.map(h => processPlot(story, p, h))),
		el("div.actions",
			el("button", { onclick: () => {
				State.emit("open-flame", p.number);
			} }, "Show its call sites"),
			el("button", { onclick: () => showMoment(p.first_usec, p.endsAt) }, "Show in the plots")),
		stackView(story, p.peak_stack, "Allocation that made the peak of its life"));
}

function processColumns(story) {
	const many = story.hosts.length > 1;
	return [
		{ name: "Process", class: "subject", key: p => p.name.toLowerCase(),
			cell: p => processButton(story, p.number) },
		{ name: "User", class: "who", key: p => p.user, cell: p => foreign(clip(p.user || NONE, 40)) },
		{ name: "Unit", class: "who", key: p => p.loc, cell: p => foreign(clip(p.loc || NONE, 60)) },
		many ? { name: "Host", class: "who", key: p => story.hostName(p.host),
			cell: p => foreign(clip(story.hostName(p.host), 40)) } : null,
		{ name: "Lived", class: "num", descends: true, key: p => p.endsAt - p.first_usec,
			cell: p => formatDuration(Math.max(0, p.endsAt - p.first_usec)) +
			(p.ended ? "" : p.cut ? " ?" : " \u2192") },
		{ name: "Most held", class: "num", descends: true, key: p => p.peak_bytes,
			cell: p => formatBytes(p.peak_bytes) },
		{ name: "At last", class: "num", descends: true, key: p => p.live_bytes,
			cell: p => formatBytes(p.live_bytes) },
		{ name: "Failed", class: "num", descends: true, key: p => p.fail_count, cell: p => p.fail_count ?
			formatCount(p.fail_count) : NONE },
		{ name: "Incidents", class: "num", descends: true, key: p => p.incidents, cell: p => p.incidents ?
			formatCount(p.incidents) : NONE },
		{ name: "Memory over time", class: "spark", cell: p => {
			const canvas = el("canvas", { role: "img", "aria-label": "Memory over time, at most " +
				formatBytes(p.peak_bytes) });
			canvas.process = p;
			return el("div", canvas);
		} },
	].filter(Boolean);
}

function buildProcesses(story) {
	if (!story.processes.length)
		return null;
	const columns = processColumns(story);
	let table = null;
	let isNear = false;
	const sparks = eachFrame(() => {
		const all = isNear ? table.root.querySelectorAll(".spark canvas") : [];
		// One width for all: to ask each would lay out the page anew for each.
		const width = all.length && all[0].parentNode.clientWidth;
		all.forEach(c => drawSpark(c, c.process, width));
	});
	const plots = how => {
		for (const plot of processPlots) {
			if (!plot.root.isConnected)
				processPlots.delete(plot);
			else
				plot[how]();
		}
	};
	table = new Table(columns, { label: "processes", rows: story.processes, pageSize: 25,
		none: "No process matches.",
		sort: { column: columns.findIndex(c => c.name === "Most held"), descends: true },
		id: p => "process-" + p.number, name: p => p.name, details: p => processDetails(story, p),
		mark: (tr, p) => tr.classList.toggle("picked", State.picked === p.number), onPage: sparks });
	new ResizeObserver(sparks).observe(table.root);
	whenNear(table.root, () => {
		isNear = true;
		sparks();
	});
	State.on("filter", () => table.setRows(story.processes.filter(p => State.isShown(p.number))));
	State.on("pick", () => {
		for (const tr of table.body.querySelectorAll("tr.main"))
			tr.classList.toggle("picked", tr.id === "process-" + State.picked);
	});
	State.on("view look", sparks);
	State.on("print", () => comeNear(table.root));
	State.on("zone", () => table.show());
	State.on("view look pick", () => plots("redraw"));
	State.on("cursor", () => plots("showCursor"));
	return section("processes", "Processes",
		el("div.card", table.root));
}
