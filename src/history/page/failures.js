// SPDX-License-Identifier: MIT
// Post-mortem of failed allocations: what was asked for, and who held the device's memory then.

const FAILURES_AT_ONCE = 10;

// A bar over the device's capacity: its holders, what nobody traced holds, what is free; and below it what was asked for.
function failureBar(story, f) {
	const parts = f.holders.map(h => ({ bytes: h.bytes, process: h.process }));
	const held = parts.reduce((n, p) => n + p.bytes, 0);
	const other = f.other_bytes !== null ? f.other_bytes : 0;
	const used = Math.max(held + other, f.device_used_bytes || 0);
	const whole = Math.max(f.device_bytes || 0, used, 1);
	const free = f.device_bytes !== null ? Math.max(0, f.device_bytes - used) : null;
	const asked = f.bytes;
	const scale = Math.max(whole, free !== null && asked !== null ? used + Math.min(asked, whole) : whole);
	const piece = (bytes, name, colour, title) => {
		const e = el("span.piece." + name, { title });
		e.style.width = 100 * bytes / scale + "%";
		return colour ? Look.paint(e, colour) : e;
	};
	const label = f.holders.map(h => story.processes[h.process].name + " " + formatBytes(h.bytes));
	const bar = el("div.holdbar", { role: "img", "aria-label":
		clip("Held: " + label.join(", ") + "; free " + formatBytes(free), 600) },
		parts.map(p => {
			const e = piece(p.bytes, "swatch", Look.process(p.process), story.processes[p.process].name +
				" " + formatBytes(p.bytes));
			e.dataset.process = p.process;
			return e;
		}),
		other ? piece(other, "other", null, "not traced " + formatBytes(other)) : null,
		free ? piece(free, "free", null, "free, or not told " + formatBytes(free)) : null);
	const ask = asked !== null && f.device_bytes !== null ? el("div.askbar", { "aria-hidden": "true" }) : null;
	if (ask) {
		const e = piece(Math.min(asked, whole), "asked" + (asked > whole ? ".cut" : ""), null, null);
		e.style.marginLeft = 100 * used / scale + "%";
		ask.append(e);
	}
	return el("div.bars", bar, ask, ask && asked > free ?
		el("p.note", "Red: the " + formatBytes(asked) + " asked for, " + formatBytes(asked - free) +
		" more than was free.") : null);
}

function holderList(story, f) {
	const row = (sign, name, bytes, note) => el("tr", el("td", sign, name), el("td.num", formatBytes(bytes)),
		el("td.num", formatShare(bytes, f.device_bytes)), el("td.note", note));
	const free = f.device_bytes !== null && f.device_used_bytes !== null ? f.device_bytes - f.device_used_bytes :
		null;
	return el("table.holders", { "aria-label": "Who held the memory" },
		el("thead", el("tr", ["Held by", "Bytes", "Of the device",
			"As of"].map((t, i) => el("th", { scope: "col", class: i === 1 || i === 2 ? "num" : null },
			t)))),
		el("tbody", f.holders.map(h => row(processButton(story, h.process), null, h.bytes,
			formatDistance(h.as_of_usec, f.usec))),
			f.holders_left_out ? el("tr", el("td.note", { colspan: 4 }, "and " +
				plural(f.holders_left_out, "smaller one"))) : null,
			f.other_bytes ? row(sign("swatch.other"), "in use, of no process that was traced",
				f.other_bytes, "") : null,
			free !== null ? row(sign("swatch.free"), "free, or not told", Math.max(0, free), "") : null));
}

function failureCard(story, f) {
	const p = f.process === null ? null : story.processes[f.process];
	const title = el("h3", el("span.badge.error", "\u2715 " + formatMoment(f.usec)), " ",
		p ? processButton(story, f.process) : el("span", "A process"), " could not allocate ",
			f.bytes !== null ? formatBytes(f.bytes) : "memory",
		f.device !== null ? " on " : "", f.device !== null ? foreign(story.deviceName(f.device)) : null);
	const held = f.holders.length || f.other_bytes;
	return el("article.card.failure", { id: "failure-" + f.number, tabindex: "-1" }, title,
		el("p.message", foreign(f.message || "")),
		factList([["Asked for", formatBytes(f.bytes)], ["By", f.function], ["Error", f.error],
			["Times", f.count > 1 ? formatCount(f.count) + ", until " + formatMoment(f.last_usec) : null],
			["The process held", formatBytes(f.live_bytes)],
				["Device capacity", formatBytes(f.device_bytes)],
			["In use on the device", formatBytes(f.device_used_bytes)],
				["Host", story.hosts.length > 1 ? story.hostName(f.host) : null]]),
		held ? failureBar(story, f) : null, held ? holderList(story, f) :
			el("p.note", "Who held the device's memory then was not recorded."),
		stackView(story, f.stack, "Where it was asked for"),
		el("button", { onclick: () => showMoment(f.usec, f.last_usec || f.usec) }, "Show in the plots"));
}

function buildFailures(story) {
	if (!story.failures.length)
		return null;
	let count = FAILURES_AT_ONCE;
	const list = el("div"), more = el("button");
	const matching = () => story.failures.filter(f => !State.test ||
		(f.process !== null && State.isShown(f.process)));
	const show = () => {
		const all = matching(), shown = all.slice(0, count);
		clear(list, ...shown.map(f => failureCard(story, f)));
		if (!all.length)
			list.append(el("p.card.empty", "No failed allocation matches."));
		more.hidden = all.length <= count;
		more.textContent = "Show " + formatCount(Math.min(50, all.length - count)) + " more of " +
			formatCount(all.length - count);
	};
	on(more, "click", () => {
		count += 50;
		show();
	});
	State.on("filter", () => {
		count = FAILURES_AT_ONCE;
		show();
	});
	State.on("look", show);
	State.on("open-failure", number => {
		const at = matching().findIndex(f => f.number === number);
		if (at >= count) {
			count = at + 1;
			show();
		}
		const e = byId("failure-" + number);
		if (e)
			goTo(e);
	});
	show();
	return section("failures", "Failed allocations", list, more);
}
