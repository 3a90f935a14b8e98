// SPDX-License-Identifier: MIT
// The whole stretch in small, with the part in view: drag it to move, its edges to widen, elsewhere to choose anew.

class Overview {
	constructor(story, root) {
		this.story = story;
		this.canvas = el("canvas", { "aria-hidden": "true" });
		this.stage = slider("Part of the stretch in view. Arrow keys move it, plus and minus zoom, 0 shows all.", e => this.key(e), this.canvas);
		root.append(this.stage);
		this.stack = new Stack(story.processes.flatMap(p => p.held.map(h => h.series)));
		this.redraw = eachFrame(() => this.draw());
		new ResizeObserver(this.redraw).observe(this.stage);
		for (const [name, fn] of Object.entries({ pointerdown: this.down, pointermove: this.move,
			pointerup: this.up, pointercancel: this.up,
			dblclick: () => State.reset() }))
			on(this.stage, name, fn.bind(this));
		State.on("view look", this.redraw);
	}

	x(t) {
		return (t - this.story.from) / (this.story.until - this.story.from) * this.width;
	}

	time(x) {
		return this.story.from + Math.min(1, Math.max(0,
			x / this.width)) * (this.story.until - this.story.from);
	}

	draw() {
		const w = this.width = this.stage.clientWidth, h = this.stage.clientHeight, s = this.story,
			c = Look.colours;
		const g = canvasContext(this.canvas, w, h);
		if (!g)
			return;
		const n = Math.floor(w), cols = this.stack.columns(s.from, s.until, n);
		const max = cols.total.reduce((a, b) => Math.max(a, b), 1);
		g.fillStyle = c.others;
		for (let i = 0; i < n; i++)
			g.fillRect(i, h - cols.total[i] / max * (h - 4), 1, h);
		for (const gap of s.gaps)
			if (BLIND_GAPS.includes(gap.kind))
				hatch(g, this.x(gap.from_usec), 0, Math.max(2,
					this.x(gap.until_usec) - this.x(gap.from_usec)), h, c.hatch, 5);
		for (const list of [s.incidents, s.failures])
			for (const i of list) {
				g.fillStyle = c[list === s.failures ? "error" : severityLook(i.severity)];
				g.fillRect(this.x(i.usec || i.begin_usec) - 1, 0, 2, 6);
			}
		const a = this.x(State.from), b = this.x(State.to);
		g.fillStyle = c.card;
		g.globalAlpha = 0.7;
		g.fillRect(0, 0, a, h);
		g.fillRect(b, 0, w - b, h);
		g.globalAlpha = 1;
		g.strokeStyle = c.accent;
		g.lineWidth = 2;
		g.strokeRect(a + 1, 1, Math.max(1, b - a - 2), h - 2);
		g.fillStyle = c.accent;
		for (const x of [a, b - 5])
			g.fillRect(Math.min(w - 5, Math.max(0, x)), h / 2 - 8, 5, 16);
		sliderSays(this.stage, (State.from - s.from) / (s.until - s.from), formatMoment(State.from) + " to " +
			formatMoment(State.to));
	}

	down(event) {
		if (event.button)
			return;
		const x = event.clientX - this.stage.getBoundingClientRect().left, a = this.x(State.from),
			b = this.x(State.to);
		const grip = event.pointerType === "touch" ? 16 : 7;
		this.stage.setPointerCapture(event.pointerId);
		const kind = Math.abs(x - a) <= grip ? "from" : Math.abs(x - b) <= grip ? "to" : x > a && x < b &&
			!State.isWhole() ? "move" : "new";
		this.drag = { kind, x, from: State.from, to: State.to };
	}

	move(event) {
		const d = this.drag;
		if (!d)
			return;
		const x = event.clientX - this.stage.getBoundingClientRect().left, t = this.time(x);
		const shift = (x - d.x) / this.width * (this.story.until - this.story.from);
		if (d.kind === "move")
			State.setView(d.from + shift, d.to + shift);
		else if (d.kind === "from")
			State.setView(Math.min(t, d.to), Math.max(t, d.to));
		else if (d.kind === "to")
			State.setView(Math.min(t, d.from), Math.max(t, d.from));
		else if (Math.abs(x - d.x) > 4)
			State.setView(Math.min(t, this.time(d.x)), Math.max(t, this.time(d.x)));
	}

	up() {
		this.drag = null;
	}

	key(event) {
		const span = State.to - State.from;
		if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
			const shift = (event.key === "ArrowLeft" ? -1 : 1) * span / 10;
			State.setView(State.from + shift, State.to + shift);
			event.preventDefault();
		} else {
			timeKey(event, span / 100);
		}
	}
}
