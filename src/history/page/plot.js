// SPDX-License-Identifier: MIT
// Memory over time: what processes hold, one upon the other, as a picture. The words to it are in devices.js.

const GAP_LABEL = { down: "not running", silent: "silent", asleep: "asleep", lost: "events lost",
	missing: "records missing",
	suppressed: "records held back", boot: "boot" };
// In these nothing was seen at all; in the others something was.
const BLIND_GAPS = ["down", "silent", "asleep"];

class Plot {
	// model: layers [{ process, series }], capacity, used (Series), peak { bytes, usec }, host, marks [{ usec, look, kind, open }],
	// label. options: compact; onRead(reading) when the cursor moves.
	constructor(model, options = {}) {
		this.model = model;
		this.options = options;
		this.base = el("canvas", { "aria-hidden": "true" });
		this.over = el("canvas.over", { "aria-hidden": "true" });
		this.tag = el("div.tag", { hidden: true });
		this.stage = slider(model.label, e => this.key(e), this.base, this.over, this.tag);
		on(this.stage, "blur", () => this.leave());
		this.kinds = ["failure", "incident"].filter(k => model.marks.some(m => m.kind === k));
		this.lanes = model.marks.length ? el("div.lanes", { "data-lanes": this.kinds.length }) : null;
		this.root = el("div.plotbox" + (options.compact ? ".compact" : ""), this.lanes, this.stage);
		this.stack = null;
		this.gesture = new Gesture(this.stage, {
			area: () => this.area(),
			select: (a, b) => this.select(a, b),
			tap: (x, y) => this.tap(x, y),
			move: (x, y) => this.point(x, y),
			leave: () => this.leave(),
		});
		this.redraw = eachFrame(() => this.draw());
		new ResizeObserver(this.redraw).observe(this.stage);
		this.showCursor = eachFrame(() => this.drawCursor());
	}

	area() {
		const x = 58;
		return { x, width: Math.max(20, this.stage.clientWidth - x - 8), y: 16,
			height: this.stage.clientHeight - 16 - 22 };
	}

	// Bottom to top. What the filter leaves out and what ranks too low is "others".
	shownLayers() {
		const max = 12, all = this.model.layers.filter(l => State.isShown(l.process.number));
		const shown = all.slice(0, all.length > max ? max - 1 : max);
		const picked = this.model.layers.find(l => l.process.number === State.picked);
		if (!picked)
			return shown;
		return [picked, ...shown.filter(l => l !== picked)].slice(0, max);
	}

	scaleMax() {
		const m = this.model;
		let most = m.peak ? m.peak.bytes || 0 : 0;
		for (const v of this.stack.total)
			most = Math.max(most, v);
		for (const v of m.used ? m.used.high : [])
			most = Math.max(most, v);
		if (m.capacity && (most > 0.3 * m.capacity || !most))
			return Math.max(m.capacity, most) * 1.05;
		return (most || 1024 * 1024) * 1.2;
	}

	prepare() {
		if (!this.stack) {
			this.stack = new Stack(this.model.layers.map(l => l.series));
			this.max = this.scaleMax();
		}
	}

	draw() {
		const w = this.stage.clientWidth, h = this.stage.clientHeight;
		const g = canvasContext(this.base, w, h);
		if (!g || !this.root.isConnected)
			return;
		this.prepare();
		const a = this.a = this.area(), n = this.n = Math.floor(a.width);
		this.cols = this.stack.columns(State.from, State.to, n);
		this.shown = this.shownLayers();
		this.values = this.shown.map(l => valuesAt(l.series, this.cols.moment));
		this.tops = this.pile();
		this.y = v => a.y + a.height - Math.min(1.02, v / this.max) * a.height;
		this.drawGrid(g, a);
		this.drawGaps(g, a, true);
		this.drawBound(g, a);
		this.drawLayers(g, a);
		this.drawPickedBand(g, a);
		this.drawUsed(g, a);
		this.drawCapacity(g, a);
		this.drawPeak(g, a);
		this.drawGaps(g, a, false);
		this.drawMarks(g, a);
		this.drawCursor();
		if (this.options.onDraw)
			this.options.onDraw();
	}

	// Upper edges: of each layer shown, then of the others.
	pile() {
		const tops = [], n = this.n;
		let below = new Float64Array(n);
		for (const v of this.values) {
			const top = new Float64Array(n);
			for (let c = 0; c < n; c++)
				top[c] = below[c] + v[c];
			tops.push(top);
			below = top;
		}
		const top = new Float64Array(n);
		for (let c = 0; c < n; c++)
			top[c] = Math.max(below[c], this.cols.total[c]);
		tops.push(top);
		return tops;
	}

	x(t) {
		return this.a.x + (t - State.from) / (State.to - State.from) * this.a.width;
	}

	font(g) {
		g.font = "12px " + getComputedStyle(document.body).fontFamily;
	}

	drawGrid(g, a) {
		const c = Look.colours;
		this.font(g);
		g.strokeStyle = c.line;
		g.fillStyle = c.muted;
		g.lineWidth = 1;
		g.textAlign = "right";
		g.textBaseline = "middle";
		for (const v of byteTicks(this.max, this.options.compact ? 4 : 6)) {
			const y = Math.round(this.y(v)) + 0.5;
			line(g, a.x, y, a.x + a.width, y);
			g.fillText(formatBytes(v), a.x - 6, y);
		}
		const ticks = timeTicks(State.from, State.to, a.width / 76);
		g.textAlign = "center";
		g.textBaseline = "top";
		for (const t of ticks.at) {
			const x = Math.round(this.x(t)) + 0.5;
			line(g, x, a.y, x, a.y + a.height + 4);
			const isMidnight = (t + Zone.offset(t)) % DAY === 0;
			g.fillStyle = isMidnight ? c.text : c.muted;
			const label = isMidnight ? formatDay(t) : formatTime(t, ticks.step);
			const half = g.measureText(label).width / 2;
			g.fillText(label, Math.min(Math.max(x, half + 2), a.x + a.width + 6 - half), a.y + a.height +
				6);
		}
	}

	// A step line over the columns: edge(c) gives its y.
	trace(g, edge, from, to, back) {
		const a = this.a;
		for (let i = from; i < to; i++) {
			const c = back ? to - 1 - i + from : i, y = edge(c);
			g.lineTo(a.x + c + (back ? 1 : 0), y);
			g.lineTo(a.x + c + (back ? 0 : 1), y);
		}
	}

	fillBetween(g, top, bottom) {
		g.beginPath();
		this.trace(g, c => this.y(top(c)), 0, this.n, false);
		this.trace(g, c => this.y(bottom(c)), 0, this.n, true);
		g.closePath();
		g.fill();
	}

	// What it may have been between two samples; never more than the device has.
	boundAt(c) {
		const total = this.cols.total[c], most = this.model.capacity ? Math.max(this.model.capacity, total) :
			Infinity;
		return Math.min(this.cols.bound[c], most);
	}

	drawBound(g) {
		g.fillStyle = Look.colours.others;
		g.globalAlpha = 0.3;
		const top = this.tops[this.tops.length - 1];
		this.fillBetween(g, c => Math.max(top[c], this.boundAt(c)), c => top[c]);
		g.globalAlpha = 1;
	}

	drawLayers(g) {
		const hasPick = State.picked !== null && this.shown.some(l => l.process.number === State.picked);
		for (let i = this.tops.length - 1; i >= 0; i--) {
			const top = this.tops[i], bottom = i ? this.tops[i - 1] : null, layer = this.shown[i];
			g.fillStyle = layer ? Look.process(layer.process.number) : Look.colours.others;
			g.globalAlpha = hasPick && !(layer && layer.process.number === State.picked) ? 0.28 : layer ?
				1 : 0.75;
			this.fillBetween(g, c => top[c], c => bottom ? bottom[c] : 0);
		}
		g.globalAlpha = 1;
		// Thin lines between the areas: they are told apart without their colours.
		g.strokeStyle = Look.colours.card;
		g.lineWidth = 1;
		this.values.forEach((v, i) => {
			if (v.reduce((a, b) => Math.max(a, b), 0) / this.max * this.a.height < 4)
				return;
			g.beginPath();
			this.trace(g, c => this.y(this.tops[i][c]), 0, this.n, false);
			g.stroke();
		});
	}

	drawPickedBand(g) {
		const layer = this.options.compact ? this.model.layers[0] : this.shown[0];
		if (!layer || (!this.options.compact && layer.process.number !== State.picked))
			return;
		const e = envelope(layer.series, State.from, State.to, this.n);
		g.fillStyle = Look.colours.text;
		g.globalAlpha = 0.16;
		this.fillBetween(g, c => Math.max(e.high[c], this.values[0][c]),
			c => Math.min(e.low[c], this.values[0][c]));
		g.globalAlpha = 1;
	}

	drawUsed(g) {
		const used = this.model.used;
		if (!used)
			return;
		const e = envelope(used, State.from, State.to, this.n);
		const first = Math.max(0, Math.floor((used.t[0] - State.from) / (State.to - State.from) * this.n));
		if (first >= this.n)
			return;
		g.strokeStyle = Look.colours.used;
		g.lineWidth = 1.5;
		g.beginPath();
		this.trace(g, c => this.y(e.high[c]), first, this.n, false);
		g.stroke();
	}

	drawCapacity(g, a) {
		const cap = this.model.capacity;
		if (!cap)
			return;
		this.font(g);
		g.textAlign = "right";
		g.fillStyle = Look.colours.text;
		if (cap > this.max) {
			g.textBaseline = "bottom";
			g.fillText("\u2191 capacity " + formatBytes(cap), a.x + a.width, a.y - 2);
			return;
		}
		const y = Math.round(this.y(cap)) + 0.5;
		g.strokeStyle = Look.colours.text;
		g.lineWidth = 1;
		g.setLineDash([5, 4]);
		line(g, a.x, y, a.x + a.width, y);
		g.setLineDash([]);
		g.textBaseline = "bottom";
		g.fillText("capacity " + formatBytes(cap), a.x + a.width, y - 2);
	}

	drawPeak(g, a) {
		const p = this.model.peak;
		if (!p || !p.bytes || p.usec < State.from || p.usec > State.to)
			return;
		const x = this.x(p.usec), y = this.y(p.bytes);
		g.beginPath();
		g.arc(x, y, 4, 0, 7);
		g.fillStyle = Look.colours.card;
		g.fill();
		g.strokeStyle = Look.colours.text;
		g.lineWidth = 1.5;
		g.stroke();
		const label = "peak " + formatBytes(p.bytes);
		this.font(g);
		const w = g.measureText(label).width, isLeft = x + w + 12 > a.x + a.width;
		const lx = isLeft ? x - 10 - w : x + 10,
			ly = Math.max(a.y + 12, Math.abs(y - this.y(this.model.capacity || 0)) < 14 ? y + 14 : y);
		g.textAlign = "left";
		g.textBaseline = "middle";
		g.strokeStyle = Look.colours.card;
		g.lineWidth = 4;
		g.lineJoin = "round";
		g.strokeText(label, lx, ly);
		g.fillStyle = Look.colours.text;
		g.fillText(label, lx, ly);
	}

	drawGaps(g, a, isBelow) {
		for (const gap of State.story.gaps) {
			if (gap.host !== this.model.host || gap.until_usec < State.from || gap.from_usec > State.to)
				continue;
			const x0 = Math.max(a.x, this.x(gap.from_usec)),
				x1 = Math.min(a.x + a.width, Math.max(this.x(gap.until_usec), x0 + 3));
			const isBlind = BLIND_GAPS.includes(gap.kind);
			if (isBelow && isBlind) {
				g.fillStyle = Look.colours.hatch;
				g.globalAlpha = 0.14;
				g.fillRect(x0, a.y, x1 - x0, a.height);
				g.globalAlpha = 1;
			}
			if (isBelow)
				continue;
			if (gap.kind === "boot") {
				g.fillStyle = Look.colours.hatch;
				g.fillRect(x0, a.y, 1.5, a.height);
			} else {
				hatch(g, x0, isBlind ? a.y : a.y + a.height - 8, x1 - x0, isBlind ? a.height : 8,
					Look.colours.hatch, isBlind ? 8 : 4);
			}
			this.labelGap(g, a, GAP_LABEL[gap.kind] || "gap", x0, x1, isBlind ? a.y + 2 : a.y +
				a.height - 25);
		}
	}

	labelGap(g, a, label, x0, x1, y) {
		this.font(g);
		const w = g.measureText(label).width;
		if (w + 8 > x1 - x0)
			return;
		const x = (x0 + x1) / 2;
		g.fillStyle = Look.colours.card;
		g.fillRect(x - w / 2 - 4, y, w + 8, 16);
		g.fillStyle = Look.colours.text;
		g.textAlign = "center";
		g.textBaseline = "middle";
		g.fillText(label, x, y + 8.5);
	}

	drawMarks(g, a) {
		if (!this.lanes)
			return;
		this.groups = groupMarks(this.model.marks, t => this.x(t), a.x, a.x + a.width);
		for (const m of this.groups) {
			g.strokeStyle = Look.colours[m.look];
			g.globalAlpha = this.groups.length > 20 ? 0.35 : 0.75;
			g.lineWidth = 1;
			g.setLineDash(m.kind === "failure" ? [] : [2, 3]);
			const x = Math.round(m.x) + 0.5;
			line(g, x, 0, x, a.y + a.height);
		}
		g.setLineDash([]);
		g.globalAlpha = 1;
		showMarks(this.lanes, this.groups, this.kinds);
	}

	// ---- pointing

	column(t) {
		return Math.min(this.n - 1, Math.max(0, Math.floor((t - State.from) / (State.to - State.from) * this.n)));
	}

	point(x, y) {
		if (!this.a)
			return;
		this.pointedAt = y;
		State.setCursor(State.from + (x - this.a.x + 0.01) / this.a.width * (State.to - State.from));
	}

	leave() {
		this.pointedAt = null;
		State.setCursor(null);
	}

	// What the plot says of the moment pointed at; null = nothing is.
	reading() {
		if (State.cursor === null || !this.cols || State.cursor < State.from || State.cursor > State.to)
			return null;
		const c = this.column(State.cursor), usec = this.cols.moment[c];
		const values = new Map();
		this.shown.forEach((l, i) => values.set(l.process.number,
			{ bytes: this.values[i][c], bounds: l.series.boundsAt(usec) }));
		const below = this.shown.length ? this.tops[this.shown.length - 1][c] : 0;
		const used = this.model.used && usec >= this.model.used.t[0] ? this.model.used.at(usec) : null;
		return { c, usec, values, total: this.cols.total[c], bound: this.boundAt(c),
			others: this.cols.total[c] - below, used,
			step: (State.to - State.from) / this.n, nearest: nearestMark(this.model.marks, usec) };
	}

	layerAt(c, y) {
		const i = this.tops.findIndex(top => y >= this.y(top[c]));
		return i >= 0 && i < this.shown.length && y <= this.y(0) ? this.shown[i] : null;
	}

	drawCursor() {
		const g = canvasContext(this.over, this.stage.clientWidth, this.stage.clientHeight);
		if (!g || !this.cols)
			return;
		const r = this.reading(), a = this.a;
		if (this.selection) {
			const [x0, x1] = this.selection;
			g.fillStyle = Look.colours.accent;
			g.globalAlpha = 0.2;
			g.fillRect(Math.min(x0, x1), a.y, Math.abs(x1 - x0), a.height);
			g.globalAlpha = 1;
		}
		if (r) {
			g.strokeStyle = Look.colours.text;
			g.lineWidth = 1;
			line(g, a.x + r.c + 0.5, a.y, a.x + r.c + 0.5, a.y + a.height);
		}
		this.showTag(r);
		sliderSays(this.stage, r ? r.c / this.n : 0, r ? formatMoment(r.usec, r.step) + ", " +
			formatBytes(r.total) : "no moment chosen");
		if (this.options.onRead)
			this.options.onRead(r);
	}

	showTag(r) {
		const isHere = r && (isKnown(this.pointedAt) || document.activeElement === this.stage);
		this.tag.hidden = !isHere;
		if (!isHere)
			return;
		const layer = this.pointedAt ? this.layerAt(r.c, this.pointedAt) : null;
		const v = layer ? r.values.get(layer.process.number) : null;
		clear(this.tag, el("b", formatTime(r.usec, Math.min(r.step, SECOND))),
			el("span", formatBytes(r.total) + " in all"),
			v ? el("span.who", Look.swatch(layer.process.number), foreign(clip(layer.process.name, 40)),
				" ",
				formatBytes(v.bytes)) : null,
			v && v.bounds[1] > v.bytes * 1.005 ? el("span", "up to " + formatBytes(v.bounds[1])) : null);
		const x = this.a.x + r.c, w = this.tag.offsetWidth;
		this.tag.style.left = (x + w + 14 > this.stage.clientWidth ? Math.max(0, x - w - 10) : x + 10) + "px";
	}

	select(a, b) {
		this.selection = a === null ? null : [a, b];
		this.showCursor();
	}

	tap(x, y) {
		if (!this.cols)
			return;
		const layer = this.layerAt(Math.min(this.n - 1, Math.floor(x - this.a.x)), y);
		if (layer)
			State.pick(layer.process.number);
	}

	key(event) {
		this.pointedAt = null;
		if (!this.cols || timeKey(event, (State.to - State.from) / this.n))
			return;
		const at = State.cursor === null ? State.from : State.cursor;
		if (event.key === "Enter") {
			const near = nearestMark(this.model.marks, at);
			if (near)
				near.open();
		} else if (event.key === "n" || event.key === "p") {
			const later = event.key === "n";
			const marks = this.model.marks.filter(m => later ? m.usec > at : m.usec < at);
			if (marks.length)
				State.setCursor(marks[later ? 0 : marks.length - 1].usec);
		}
	}
}
