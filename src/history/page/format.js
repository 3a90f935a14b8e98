// SPDX-License-Identifier: MIT
// Numbers and times as text; elements. Whatever comes from the story becomes text nodes and attributes, never markup.
"use strict";

const NONE = "\u2013";
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const SECOND = 1e6, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;

function isKnown(x) {
	return x !== null && x !== undefined;
}

function formatBytes(n) {
	if (!isKnown(n))
		return NONE;
	let unit = 0, v = n;
	while (Math.abs(v) >= 1024 && unit < UNITS.length - 1) {
		v /= 1024;
		unit++;
	}
	// 1023.96 would be told as 1024.0 of the smaller unit.
	if (Math.abs(v) >= 1023.95 && unit < UNITS.length - 1) {
		v /= 1024;
		unit++;
	}
	return (unit ? v.toFixed(1).replace(/\.0$/, "") : String(v)) + " " + UNITS[unit];
}

function formatCount(n) {
	return isKnown(n) ? String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ",") : NONE;
}

function plural(n, one, many) {
	return formatCount(n) + " " + (n === 1 ? one : many || one + "s");
}

function formatShare(part, whole) {
	if (!(whole > 0))
		return NONE;
	const share = 100 * part / whole;
	return (share >= 10 || share === 0 ? share.toFixed(0) : share.toFixed(1)) + " %";
}

// The two largest units, as the command line tells durations.
function formatDuration(usec) {
	if (!isKnown(usec))
		return NONE;
	if (usec < SECOND)
		return Math.round(usec / 1000) + "ms";
	let rest = Math.round(usec / SECOND);
	const parts = [];
	for (const [name, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
		const n = Math.floor(rest / size);
		rest -= n * size;
		if (n || parts.length)
			parts.push(n ? n + name : "");
		if (parts.length === 2)
			break;
	}
	return parts.filter(Boolean).join(" ");
}

const Zone = {
	isUtc: false,
	// Microseconds to add to a moment so that a UTC calendar shows the wall clock.
	offset(usec) {
		return this.isUtc ? 0 : -new Date(usec / 1000).getTimezoneOffset() * MINUTE;
	},
	date(usec) {
		return new Date((usec + this.offset(usec)) / 1000);
	},
	name(usec) {
		if (this.isUtc)
			return "UTC";
		const min = this.offset(usec) / MINUTE, abs = Math.abs(min);
		const utc = "UTC" + (min < 0 ? "\u2212" : "+") + two(Math.floor(abs / 60)) + ":" + two(abs % 60);
		const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
		return name && name !== "UTC" ? name + " (" + utc + ")" : "UTC";
	},
};

function two(n) {
	return String(n).padStart(2, "0");
}

function formatDay(usec) {
	const d = Zone.date(usec);
	return DAYS[d.getUTCDay()] + " " + d.getUTCDate() + " " + MONTHS[d.getUTCMonth()];
}

// step: what a reader needs to tell apart, in microseconds.
function formatTime(usec, step = SECOND) {
	const d = Zone.date(usec);
	let s = two(d.getUTCHours()) + ":" + two(d.getUTCMinutes());
	if (step < MINUTE)
		s += ":" + two(d.getUTCSeconds());
	if (step < SECOND)
		s += "." + String(d.getUTCMilliseconds()).padStart(3, "0");
	return s;
}

function formatMoment(usec, step = SECOND) {
	if (!usec)
		return NONE;
	return formatDay(usec) + " " + formatTime(usec, step);
}

// "Mon 30 Nov 19:00 - Tue 1 Dec 09:00"; the day once where it is the same.
function formatRange(from, to, step) {
	return formatMoment(from, step) + " \u2013 " +
		(formatDay(from) === formatDay(to) ? formatTime(to, step) : formatMoment(to, step));
}

// How far other is from usec.
function formatDistance(other, usec) {
	const d = other - usec;
	return Math.abs(d) < SECOND ? "that moment" : formatDuration(Math.abs(d)) + (d < 0 ? " before" : " after");
}

function formatYear(usec) {
	return String(Zone.date(usec).getUTCFullYear());
}

// A value and its limit carry the unit of their rule.
function formatValue(n, unit) {
	if (!isKnown(n))
		return NONE;
	if (unit === "bytes" || unit === "bytes/s")
		return formatBytes(n) + unit.slice(5);
	const v = Number.isInteger(n) ? formatCount(n) : String(Math.round(n * 1000) / 1000);
	return unit ? v + " " + unit : v;
}

// Moments on the wall clock that divide from..to evenly, at most max of them: { step, at: [usec] }.
function timeTicks(from, to, max) {
	const steps = [1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, ...[1, 2, 5, 10, 15, 30].map(n => n * SECOND),
		...[1, 2, 5, 10, 15, 30].map(n => n * MINUTE), ...[1, 2, 3, 6, 12].map(n => n * HOUR),
		...[1, 2, 7, 14, 28, 91, 364].map(n => n * DAY)];
	const step = steps.find(s => (to - from) / s <= Math.max(1, max)) || steps[steps.length - 1];
	const at = [];
	const first = Math.ceil((from + Zone.offset(from)) / step) * step;
	for (let wall = first; at.length < 1000; wall += step) {
		const t = wall - Zone.offset(wall - Zone.offset(wall));
		if (t > to)
			break;
		if (t >= from)
			at.push(t);
	}
	return { step, at };
}

function byteTicks(max, count) {
	let unit = 1;
	while (max / unit >= 1024)
		unit *= 1024;
	const step = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500].map(n => n * unit).find(s => max / s <= count) ||
		1024 * unit;
	const at = [];
	for (let v = 0; v <= max; v += step)
		at.push(v);
	return at;
}

// el("button.link.process", { onclick: f, hidden: true }, "text", node, [more], null, ...); attributes may be left out.
function el(name, attributes, ...children) {
	const [tag, ...classes] = name.split("."), e = document.createElement(tag);
	if (attributes && attributes.constructor !== Object) {
		children.unshift(attributes);
		attributes = null;
	}
	if (tag === "button")
		e.type = "button";
	for (const [k, v] of Object.entries(attributes || {})) {
		if (k.startsWith("on"))
			on(e, k.slice(2), v);
		else if (v !== false && isKnown(v))
			e.setAttribute(k, v === true ? "" : v);
	}
	if (classes.length)
		e.classList.add(...classes);
	e.append(...present(children.flat()));
	return e;
}

function on(e, name, fn, options) {
	e.addEventListener(name, fn, options);
}

function byId(id) {
	return document.getElementById(id);
}

function present(nodes) {
	return nodes.filter(n => n !== false && isKnown(n));
}

// A picture that keys move within.
function slider(label, onkeydown, ...children) {
	return el("div.stage", { tabindex: "0", role: "slider", "aria-label": label, "aria-valuenow": "0", onkeydown },
		...children);
}

function sliderSays(e, share, text) {
	e.setAttribute("aria-valuenow", String(Math.round(100 * share)));
	e.setAttribute("aria-valuetext", text);
}

function section(id, title, ...children) {
	return el("section", { id, "aria-labelledby": "h-" + id, tabindex: "-1" }, el("h2", { id: "h-" + id }, title),
		...children);
}

// A picture beside words that say the same.
function sign(classes) {
	return el("span." + classes, { "aria-hidden": "true" });
}

// Foreign text: kept apart from its surroundings whatever its direction.
function foreign(text, attributes) {
	return el("bdi", attributes, text);
}

function clear(e, ...children) {
	e.replaceChildren(...present(children));
	return e;
}

function clip(text, max) {
	return text.length > max ? text.slice(0, max - 1) + "\u2026" : text;
}
