// SPDX-License-Identifier: MIT
// Colours: of the theme as the style sheet has them, of processes the same everywhere. Neighbours in the list differ in
// lightness too, for eyes that do not tell the hues apart.

const PROCESS_COLOURS = {
	light: ["#0068a8", "#f0a030", "#0b8a6a", "#d4667a", "#6cc0ec", "#93328f", "#cdb94a", "#3b2f95", "#8fb04a",
		"#8c1f4f", "#3fb5a5",
		"#8a5a2b"],
	dark: ["#3d9be0", "#f0ad4e", "#1fae88", "#e88a9a", "#9adcff", "#c466c0", "#e0d27a", "#7d74e6", "#b5d36b",
		"#cf5187", "#5fd6c6",
		"#b98452"],
};

const Look = {
	theme: null, // "light" or "dark" when chosen, null = as the system has it
	isPrinting: false,
	colours: {},
	slots: new Map(),
	isDark() {
		if (this.isPrinting)
			return false;
		return this.theme ? this.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
	},
	read() {
		const style = getComputedStyle(document.documentElement);
		for (const name of ["card", "text", "muted", "line", "accent", "others", "used", "critical", "error",
			"warning", "info", "hatch"])
			this.colours[name] = style.getPropertyValue("--" + name).trim();
	},
	apply() {
		const root = document.documentElement;
		root.dataset.theme = this.isDark() ? "dark" : "light";
		this.read();
		State.emit("look");
	},
	// The processes that held most on some device come first, so that those drawn side by side differ.
	assign(story) {
		let next = 0;
		for (let rank = 0; rank < 12; rank++)
			for (const d of story.devices)
				if (d.layers[rank] && !this.slots.has(d.layers[rank].process.number))
					this.slots.set(d.layers[rank].process.number, next++);
		for (const p of story.processes)
			if (!this.slots.has(p.number))
				this.slots.set(p.number, next++);
	},
	process(number) {
		const list = PROCESS_COLOURS[this.isDark() ? "dark" : "light"];
		return list[(this.slots.get(number) || 0) % list.length];
	},
	// A swatch: background by the CSSOM, which the page's policy allows.
	paint(e, colour) {
		e.style.backgroundColor = colour;
		return e;
	},
	// Black or white, whichever is easier to read there.
	inkOn(colour) {
		const [r, g, b] = [1, 3, 5].map(i => (parseInt(colour.slice(i, i + 2), 16) / 255) ** 2.2);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000" : "#fff";
	},
	swatch(number) {
		const e = sign("swatch");
		e.dataset.process = number;
		return this.paint(e, this.process(number));
	},
	repaint() {
		for (const e of document.querySelectorAll("[data-process].swatch")) {
			this.paint(e, this.process(Number(e.dataset.process)));
			if (e.style.color)
				e.style.color = this.inkOn(this.process(Number(e.dataset.process)));
		}
	},
	watch() {
		on(matchMedia("(prefers-color-scheme: dark)"), "change", () => this.apply());
		on(window, "beforeprint", () => {
			this.isPrinting = true;
			this.apply();
			State.emit("print");
		});
		on(window, "afterprint", () => {
			this.isPrinting = false;
			this.apply();
		});
		State.on("look", () => this.repaint());
	},
};

// A canvas as large as its box, sharp on every screen; null where the box is not laid out.
function canvasContext(canvas, width, height) {
	const ratio = Math.min(devicePixelRatio || 1, 3);
	if (!(width > 0) || !(height > 0))
		return null;
	const w = Math.round(width * ratio), h = Math.round(height * ratio);
	if (canvas.width !== w || canvas.height !== h) {
		canvas.width = w;
		canvas.height = h;
	}
	canvas.style.width = width + "px";
	canvas.style.height = height + "px";
	const g = canvas.getContext("2d");
	g.setTransform(ratio, 0, 0, ratio, 0, 0);
	g.clearRect(0, 0, width, height);
	return g;
}

function line(g, x0, y0, x1, y1) {
	g.beginPath();
	g.moveTo(x0, y0);
	g.lineTo(x1, y1);
	g.stroke();
}

function hatch(g, x, y, w, h, colour, gap = 7) {
	g.save();
	g.beginPath();
	g.rect(x, y, w, h);
	g.clip();
	g.strokeStyle = colour;
	g.lineWidth = 1;
	g.beginPath();
	// Lines start on a grid of their own, so that neighbouring areas join.
	for (let i = Math.floor((x - h) / gap) * gap; i < x + w; i += gap) {
		g.moveTo(i, y + h);
		g.lineTo(i + h, y);
	}
	g.stroke();
	g.restore();
}

// Calls fn at the next frame, once however often it is asked for.
function eachFrame(fn) {
	let isDue = false;
	return () => {
		if (isDue)
			return;
		isDue = true;
		requestAnimationFrame(() => {
			isDue = false;
			fn();
		});
	};
}

// Calls fn when e first comes near the screen.
const nearby = new Map();
const nearbyObserver = new IntersectionObserver(entries => {
	for (const x of entries)
		if (x.isIntersecting)
			comeNear(x.target);
}, { rootMargin: "300px" });

function comeNear(e) {
	const fn = nearby.get(e);
	nearby.delete(e);
	nearbyObserver.unobserve(e);
	if (fn)
		fn();
}

function whenNear(e, fn) {
	nearby.set(e, fn);
	nearbyObserver.observe(e);
}
