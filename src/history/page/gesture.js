// SPDX-License-Identifier: MIT
// Pointing, dragging, pinching and keys on a picture of time. area: { x, width } of the picture within its element.

class Gesture {
	// hooks: area(), select(x0, x1) while a stretch is drawn (null = none), tap(x, y), move(x, y), leave()
	constructor(e, hooks) {
		this.e = e;
		this.hooks = hooks;
		this.pointers = new Map();
		this.start = null;
		for (const [name, fn] of Object.entries({ pointerdown: this.down, pointermove: this.move,
			pointerup: this.up,
			pointercancel: this.cancel, pointerleave: this.leave, dblclick: this.reset }))
			on(e, name, fn.bind(this));
		on(e, "wheel", this.wheel.bind(this), { passive: false });
	}

	at(event) {
		const box = this.e.getBoundingClientRect(), area = this.hooks.area();
		const x = Math.min(Math.max(event.clientX - box.left, area.x), area.x + area.width);
		return { x, y: event.clientY - box.top };
	}

	time(x) {
		const area = this.hooks.area();
		return State.from + (x - area.x) / area.width * (State.to - State.from);
	}

	down(event) {
		if (event.button)
			return;
		const p = this.at(event);
		this.pointers.set(event.pointerId, p);
		this.e.setPointerCapture(event.pointerId);
		this.start = this.pointers.size === 1 ? { ...p, from: State.from, to: State.to, moved: false,
			touch: event.pointerType === "touch" } : null;
		this.pinch = this.pointers.size === 2 ? this.grip() : null;
		if (this.pinch)
			this.hooks.select(null);
	}

	// Where the two fingers lie, in time.
	grip() {
		const [a, b] = [...this.pointers.values()].map(p => p.x).sort((x, y) => x - y);
		return { t0: this.time(a), t1: this.time(b) };
	}

	move(event) {
		const p = this.at(event);
		if (this.pointers.has(event.pointerId))
			this.pointers.set(event.pointerId, p);
		if (this.pinch && this.pointers.size === 2) {
			this.spread();
			return;
		}
		const s = this.start;
		if (s && Math.abs(p.x - s.x) > 4)
			s.moved = true;
		if (s && s.moved && s.touch)
			this.pan(s, p);
		else if (s && s.moved)
			this.hooks.select(s.x, p.x);
		this.hooks.move(p.x, p.y);
	}

	// The moments under the two fingers stay under them.
	spread() {
		const area = this.hooks.area();
		const [a, b] = [...this.pointers.values()].map(p => p.x).sort((x, y) => x - y);
		if (b - a < 8)
			return;
		const perPixel = (this.pinch.t1 - this.pinch.t0) / (b - a);
		if (!(perPixel > 0))
			return;
		const from = this.pinch.t0 - (a - area.x) * perPixel;
		State.setView(from, from + area.width * perPixel);
	}

	pan(s, p) {
		const shift = (s.x - p.x) / this.hooks.area().width * (s.to - s.from);
		if (!State.isWhole())
			State.setView(s.from + shift, s.to + shift);
	}

	up(event) {
		const s = this.start, p = this.at(event);
		this.pointers.delete(event.pointerId);
		this.pinch = null;
		this.start = null;
		if (!s)
			return;
		this.hooks.select(null);
		if (!s.moved) {
			this.hooks.move(p.x, p.y);
			this.hooks.tap(p.x, p.y);
		} else if (!s.touch) {
			State.setView(Math.min(this.time(s.x), this.time(p.x)),
				Math.max(this.time(s.x), this.time(p.x)));
		}
	}

	cancel(event) {
		this.pointers.delete(event.pointerId);
		this.start = this.pinch = null;
		this.hooks.select(null);
	}

	leave(event) {
		if (!this.pointers.size && event.pointerType !== "touch")
			this.hooks.leave();
	}

	reset() {
		State.reset();
	}

	// The page scrolls with a plain wheel; with a key held (a pinch on a touch pad tells itself as one) it zooms.
	wheel(event) {
		const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
		if (!event.ctrlKey && !event.metaKey && !(sideways && !State.isWhole()))
			return;
		event.preventDefault();
		if (event.ctrlKey || event.metaKey) {
			State.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 150),
				this.time(this.at(event).x));
		} else {
			const shift = (event.deltaX || event.deltaY) / this.hooks.area().width * (State.to - State.from);
			State.setView(State.from + shift, State.to + shift);
		}
	}
}

// Keys that mean the same on every picture of time; true = it was one. step: microseconds of one column.
function timeKey(event, step) {
	const span = State.to - State.from;
	const here = State.cursor !== null && State.cursor >= State.from && State.cursor <= State.to ? State.cursor :
		State.from + span / 2;
	const go = t => State.setCursor(Math.min(Math.max(t, State.from), State.to - step / 2));
	switch (event.key) {
	case "ArrowLeft":
		go(here - step * (event.shiftKey ? 20 : 1));
		break;
	case "ArrowRight":
		go(here + step * (event.shiftKey ? 20 : 1));
		break;
	case "Home":
		go(State.from);
		break;
	case "End":
		go(State.to);
		break;
	case "+":
	case "=":
		State.zoom(0.5, here);
		break;
	case "-":
		State.zoom(2, here);
		break;
	case "0":
	case "Escape":
		State.reset();
		break;
	default:
		return false;
	}
	event.preventDefault();
	return true;
}
