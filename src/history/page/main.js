// SPDX-License-Identifier: MIT
// Puts the page together: head, filter, sections.

const GAPS_AT_ONCE = 50;
// What turns the direction of text, beyond its own element too if it is never ended.
const TURNS = /[\u202a-\u202e\u2066-\u2069]/g;

function buildGaps(story) {
	const list = el("ul.gaps");
	const more = el("button");
	let count = GAPS_AT_ONCE;
	const item = g => el("li",
		el("span.badge.gap", GAP_LABEL[g.kind] || clip(String(g.kind), 30)), " ",
		el("span.when", g.until_usec > g.from_usec ? formatRange(g.from_usec, g.until_usec) + " (" +
			formatDuration(g.until_usec - g.from_usec) + ")" :
			formatMoment(g.from_usec)), " ",
		story.hosts.length > 1 ? foreign(story.hostName(g.host) + ": ") : null, foreign(g.text || ""),
		g.count !== null && !(g.text || "").includes(String(g.count)) ? " (" + formatCount(g.count) + ")" :
			null, " ",
		el("button.link", { onclick: () => showMoment(g.from_usec, g.until_usec) }, "show"));
	const show = () => {
		clear(list, ...story.gaps.slice(0, count).map(item),
			...story.leftOut.map(l => el("li", el("span.badge.gap", "left out"), " ",
			formatCount(l.count) + " ", foreign(String(l.what)), ": more than this report holds.")));
		more.hidden = story.gaps.length <= count;
		more.textContent = "Show all " + formatCount(story.gaps.length);
	};
	on(more, "click", () => {
		count = story.gaps.length;
		show();
	});
	State.on("zone", show);
	show();
	const isWhole = !story.gaps.length && !story.leftOut.length;
	return section("gaps", "What this report does not know",
		isWhole ? el("p.card.empty", "No gap was found: the daemon ran throughout, and no event or record is known to be missing.") :
			el("div.card", list, more));
}

function showHead(story) {
	const s = story.json, hosts = story.hosts.map((h, i) => story.hostName(i));
	clear(byId("stretch"), el("b", formatRange(story.from, story.until, MINUTE) + " " + formatYear(story.until)),
		" (" + formatDuration(story.until - story.from) + ") \u00b7 " +
		Zone.name(story.until) + " \u00b7 ", hosts.length ?
			foreign(clip(hosts.slice(0, 6).join(", "), 300) +
			(hosts.length > 6 ? " and " + (hosts.length - 6) + " more" : "")) :
		"no host", " \u00b7 " + plural(s.records || 0, "record"));
	const worst = story.incidents.filter(x => severityRank(x.severity) <= 3).length;
	const tile = (href, n, one, many, look) =>
		el("li", el("a", { class: "tile " + (n && look ? look : ""), href }, el("b", formatCount(n)), " ",
		n === 1 ? one : many));
	clear(byId("tiles"),
		tile("#devices", story.devices.length, "device", "devices"),
		story.processes.length ? tile("#processes", story.processes.length, "process", "processes") : null,
		story.failures.length ? tile("#failures", story.failures.reduce((n, f) => n + (f.count || 1), 0),
			"failed allocation", "failed allocations", "error") : null,
		tile("#incidents", story.incidents.length, "incident", "incidents", worst ? "error" : "warning"),
		tile("#gaps", story.gaps.length, "gap", "gaps", "gap"));
	document.title = "GPU memory report, " + formatMoment(story.from, MINUTE) +
		(hosts.length === 1 ? ", " + clip(hosts[0], 60) : "");
	byId("foot").textContent = "gpuxray " + (s.version || "") + ". Times are " + Zone.name(story.until) +
		"; 1 GiB is 1,073,741,824 bytes. The page holds its data and asks the network for nothing.";
}

function wireFilter(story) {
	const search = byId("search"), button = byId("clear");
	let timer = 0;
	const apply = () => {
		State.filter(search.value);
		showChoice(button, search);
	};
	on(search, "input", () => {
		clearTimeout(timer);
		timer = setTimeout(apply, story.processes.length > 200 ? 200 : 50);
	});
	on(button, "click", () => {
		search.value = "";
		if (State.picked !== null)
			State.pick(State.picked);
		apply();
	});
	State.on("pick", () => showChoice(button, search));
}

// What narrows the page, in one button that undoes it.
function showChoice(button, search) {
	const p = State.picked === null ? null : State.story.processes[State.picked];
	button.hidden = !p && !State.matches;
	clear(button, p ? Look.swatch(p.number) : null, p ? foreign(clip(p.name, 45)) : null, p && State.matches ?
		" in " : null,
		State.matches ? plural(State.matches.size, "process", "processes") : null, " \u2715");
	button.setAttribute("aria-label", "Clear the choice" + (p ? " of " + clip(p.name, 60) : "") +
		(search.value ? " and the filter" : ""));
}

function wireView() {
	const range = byId("range"), reset = byId("reset");
	const show = () => {
		const step = (State.to - State.from) < 10 * SECOND ? 1000 : State.to - State.from < 6 * HOUR ? SECOND :
			MINUTE;
		range.textContent = formatRange(State.from, State.to, step);
		reset.disabled = State.isWhole();
	};
	on(reset, "click", () => State.reset());
	State.on("view zone", show);
	show();
}

function wireLook(story) {
	const theme = byId("theme"), zone = byId("zone");
	const show = () => {
		theme.textContent = Look.isDark() ? "Light" : "Dark";
		theme.setAttribute("aria-label", Look.isDark() ? "Use light colours" : "Use dark colours");
		zone.textContent = Zone.isUtc ? "Local time" : "UTC";
		zone.setAttribute("aria-label", Zone.isUtc ? "Show local time" : "Show times in UTC");
	};
	on(theme, "click", () => {
		Look.theme = Look.isDark() ? "light" : "dark";
		Look.apply();
	});
	on(zone, "click", () => {
		Zone.isUtc = !Zone.isUtc;
		showHead(story);
		State.emit("zone");
		State.emit("look");
	});
	// Where local time is UTC there is nothing to choose.
	zone.hidden = Zone.offset(story.from) === 0 && Zone.offset(story.until) === 0;
	State.on("look", show);
	show();
}

function start() {
	const main = byId("main");
	let story = null;
	try {
		story = new Story(JSON.parse(byId("story").textContent.replace(TURNS, "\ufffd")));
	} catch (e) {
		clear(main, el("p.card.empty", "The data of this page cannot be read: " + e.message));
		return;
	}
	State.story = story;
	State.from = story.from;
	State.to = story.until;
	Look.assign(story);
	Look.watch();
	Look.apply();
	showHead(story);
	new Overview(story, byId("overview"));
	wireFilter(story);
	wireView();
	wireLook(story);
	clear(main, buildDevices(story), buildFailures(story), buildIncidents(story), buildProcesses(story),
		buildFlame(story), buildGaps(story));
	requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("drawn")));
}

start();
