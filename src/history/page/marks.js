// SPDX-License-Identifier: MIT
// Marks of incidents and failed allocations above a plot. Those too near to each other to be hit share one, with a count.

const MARK_WIDTH = 24;

// marks: ascending. Those in sight, by lane: { x, look (worst), kind, marks }.
function groupMarks(marks, xOf, left, right) {
	const groups = [], last = {};
	for (const m of marks) {
		const x = xOf(m.usec);
		if (x < left - 1 || x > right + 1)
			continue;
		const g = last[m.kind];
		if (g && x - g.x < MARK_WIDTH) {
			g.marks.push(m);
			if (severityRank(m.severity) < severityRank(g.worst.severity)) {
				g.worst = m;
				g.look = m.look;
			}
			continue;
		}
		last[m.kind] = { x, look: m.look, kind: m.kind, marks: [m], worst: m };
		groups.push(last[m.kind]);
	}
	return groups;
}

function nearestMark(marks, usec) {
	const i = firstNot(0, marks.length, k => marks[k].usec < usec), a = marks[i - 1], b = marks[i];
	return !a || (b && b.usec - usec < usec - a.usec) ? b || null : a;
}

function markLabel(g) {
	const m = g.worst, more = g.marks.length - 1;
	return clip(m.label, 160) + ", " + formatMoment(m.usec) + (more ? " and " + more + " more" : "");
}

// Keys reach marks from the plot (n, p, Enter), so that they are no tab stops: there may be a hundred.
function showMarks(lanes, groups, kinds) {
	clear(lanes, ...groups.map(g => {
		const b = el("button.mark." + g.look + "." + g.kind, { tabindex: "-1", "aria-label": markLabel(g),
			title: markLabel(g), onclick: () => g.worst.open() }, g.kind === "failure" ? "\u2715" :
				LOOK_SIGN[g.look],
			g.marks.length > 1 ? el("sub", g.marks.length > 99 ? "99+" : g.marks.length) : null);
		b.style.left = g.x + "px";
		b.dataset.lane = kinds.indexOf(g.kind);
		return b;
	}));
}

// The marks for a device.
function deviceMarks(story, device) {
	const marks = [];
	for (const x of story.incidents)
		if (story.concerns(x, device))
			marks.push({ usec: x.begin_usec, severity: x.severity, look: severityLook(x.severity),
				kind: "incident",
				label: x.severity + ": " + x.message, open: () =>
					State.emit("open-incident", x.number) });
	for (const x of story.failures)
		if (story.concerns(x, device))
			marks.push({ usec: x.usec, severity: "error", look: "error", kind: "failure",
				label: "Failed allocation" + (x.bytes !== null ? " of " + formatBytes(x.bytes) : ""),
				open: () => State.emit("open-failure", x.number) });
	return marks.sort((a, b) => a.usec - b.usec);
}
