// SPDX-License-Identifier: MIT
// A card for each device: its plot, and beside it who holds what, at the moment pointed at or at most.

class DeviceCard {
	constructor(story, device) {
		this.story = story;
		this.device = device;
		this.body = el("div.device-body");
		this.root = el("article.card.device", { id: "device-" + device.number }, this.head(), this.body);
		whenNear(this.root, () => this.build());
	}

	head() {
		const d = this.device;
		const facts = [
			d.total_bytes !== null ? "capacity " + formatBytes(d.total_bytes) : "capacity not known",
			d.peak_bytes ? "processes together at most " + formatBytes(d.peak_bytes) +
				(d.total_bytes ? " (" + formatShare(d.peak_bytes, d.total_bytes) + ")" : "") : null,
			plural(d.layers.length, "process", "processes"),
		].filter(Boolean).join(" \u00b7 ");
		return el("header", el("h3", foreign(d.name)), el("p.facts", facts),
			d.uuid ? el("code.uuid", d.uuid) : null);
	}

	build() {
		const d = this.device;
		this.plot = new Plot({
			layers: d.layers, capacity: d.total_bytes, used: d.used, host: d.host,
				marks: deviceMarks(this.story, d),
			peak: d.peak_bytes ? { bytes: d.peak_bytes, usec: d.peak_usec } : null,
			label: "Memory on " + d.name + " over time. Arrow keys move in time, plus and minus zoom, n and p go from mark to mark, Enter opens one.",
		}, { onRead: r => this.read(r), onDraw: () => this.list() });
		this.when = el("div.when");
		this.near = el("button.near.link", { hidden: true });
		on(this.near, "click", () => this.nearest && this.nearest.open());
		this.rows = el("div.rows");
		this.more = el("div.more");
		this.side = el("div.side", this.when, this.rows, this.more, this.near);
		clear(this.body, this.plot.root, this.side);
		this.plot.redraw();
	}

	isEmpty() {
		return !this.device.layers.length && !this.device.used;
	}

	// Who is told of changes with the filter and the choice, not with each redraw.
	list() {
		const shown = this.plot.shown, key = shown.map(l => l.process.number).join() + "/" + State.picked +
			(State.matches ? "f" : "");
		if (key !== this.listed) {
			this.listed = key;
			this.values = new Map();
			clear(this.rows, ...[...shown].reverse().map(l => this.processRow(l)));
			const others = this.device.layers.length - shown.length;
			if (others > 0)
				this.rows.prepend(this.plainRow("others", "others (" + formatCount(others) + ")",
					"swatch.others"));
			this.rows.append(...[
				this.device.used ? this.plainRow("used", "in use, as the driver says", "stroke.used") :
					null,
				this.plainRow("bound", "pale: at most, between samples", "swatch.pale"),
			].filter(Boolean));
			clear(this.more, this.otherChoice(shown));
		}
		this.read(this.plot.reading());
	}

	processRow(l) {
		const p = l.process, value = el("span.value");
		this.values.set(p.number, value);
		return el("button.row", { "aria-pressed": String(State.picked === p.number),
			onclick: () => State.pick(p.number) },
			Look.swatch(p.number), foreign(clip(p.name, 60), { class: "name" }), value);
	}

	plainRow(key, name, look) {
		const value = el("span.value");
		this.values.set(key, value);
		return el("div.row", sign(look), el("span.name", name), value);
	}

	// Those that are not drawn by themselves can be picked here.
	otherChoice(shown) {
		const left = this.device.layers.filter(l => !shown.includes(l) &&
			State.isShown(l.process.number)).slice(0, 500);
		if (!left.length)
			return null;
		const select = el("select", { "aria-label": "Show another process of " + this.device.name },
			el("option", { value: "" }, "show another process \u2026"),
			left.map(l => el("option", { value: l.process.number }, clip(l.process.name, 60) + " \u2013 " +
				formatBytes(l.peak))));
		on(select, "change", () => {
			if (select.value !== "")
				State.pick(Number(select.value));
		});
		return select;
	}

	// r: what the plot says of the moment, null = the whole stretch.
	read(r) {
		if (!this.values)
			return;
		const put = (key, text) => {
			const e = this.values.get(key);
			if (e && e.textContent !== text)
				e.textContent = text;
		};
		clear(this.when, el("b", r ? formatMoment(r.usec, Math.min(r.step, SECOND)) : "Most in this report"),
			el("span.total", r ? formatBytes(r.total) : formatBytes(this.device.peak_bytes)));
		for (const l of this.plot.shown) {
			const v = r ? r.values.get(l.process.number) : null;
			put(l.process.number, v ? formatBytes(v.bytes) : formatBytes(l.peak));
		}
		put("others", r ? formatBytes(Math.max(0, r.others)) : "");
		put("used", r ? formatBytes(r.used) : "");
		put("bound", r && r.bound > r.total * 1.005 ? formatBytes(r.bound) : "");
		// It stays when the pointer has gone, to be reached.
		if (!r)
			return;
		this.nearest = r.nearest;
		this.near.hidden = !r.nearest;
		if (r.nearest)
			this.near.textContent = clip(r.nearest.label, 90) + " (" +
				formatDistance(r.nearest.usec, r.usec) + ")";
	}

	update() {
		if (this.plot)
			this.plot.redraw();
	}
}

function buildDevices(story) {
	const cards = story.devices.map(d => new DeviceCard(story, d));
	const idle = cards.filter(c => c.isEmpty());
	const list = el("div", cards.filter(c => !c.isEmpty()).map(c => c.root));
	const note = el("p.note", { hidden: true });
	const hint = el("p.hint", "Each column of pixels shows its highest moment, so that no peak is lost; pale on top is what the processes ",
		"may have reached between two samples. Drag to zoom, Ctrl + wheel or pinch; double-click for the whole stretch; click a process to follow it.");
	const part = section("devices", "Memory by device",
		cards.length > idle.length ? hint : el("p.card.empty",
			"No memory was seen on any device in this stretch."), list, note);
	const filter = () => {
		let hidden = 0;
		for (const c of cards) {
			const isHidden = State.matches !== null &&
				!c.device.layers.some(l => State.matches.has(l.process.number));
			c.root.hidden = isHidden;
			hidden += isHidden && !c.isEmpty();
		}
		const said = [hidden ? plural(hidden, "device") + " without a process that matches " +
			(hidden === 1 ? "is" : "are") + " hidden." : "",
			idle.length ? "No memory was seen on: " + clip(idle.map(c => c.device.name).join(", "), 500) +
				"." : ""].filter(Boolean);
		note.hidden = !said.length;
		note.textContent = said.join(" ");
	};
	filter();
	State.on("filter", filter);
	State.on("view pick filter look", () => cards.forEach(c => c.update()));
	State.on("cursor", () => cards.forEach(c => c.plot && c.plot.showCursor()));
	// All of them are wanted on paper, and at once.
	State.on("print", () => cards.slice(0, 64).forEach(c => {
		comeNear(c.root);
		if (c.plot)
			c.plot.draw();
	}));
	return part;
}
