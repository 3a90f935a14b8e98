// SPDX-License-Identifier: MIT
// Bytes by call site, as a flame graph that hangs: the outermost frame on top, a frame as wide as the bytes below it.

const FLAME_ROW = 24, FLAME_NODES_MAX = 5000, FLAME_ALL_MAX = 2000;

function frameKind(frame) {
	if (/\.pyx?:\d+\)?$/.test(frame))
		return "python";
	if (/^(cu|cuda|hip|ze)[A-Z]\w*/.test(frame))
		return "driver";
	return /^\[\d+ more frames?\]$/.test(frame) ? "elided" : "native";
}

// { name, kind, bytes, children: Map, parent }
class FlameNode {
	constructor(name, kind, parent) {
		this.name = name;
		this.kind = kind;
		this.parent = parent;
		this.bytes = 0;
		this.children = new Map();
	}

	child(name, kind) {
		let c = this.children.get(name);
		if (!c) {
			c = new FlameNode(name, kind, this);
			this.children.set(name, c);
		}
		return c;
	}

	sorted() {
		return [...this.children.values()].sort((a, b) => (a.kind === "rest") - (b.kind === "rest") ||
			b.bytes - a.bytes);
	}
}

function addSite(story, parent, site, bytes, onlyPython) {
	let frames = story.frames(site.stack).frames;
	if (onlyPython && frames.some(f => frameKind(f) === "python"))
		frames = frames.filter(f => frameKind(f) === "python");
	let node = parent;
	for (let i = frames.length - 1; i >= 0; i--) {
		node = node.child(frames[i], frameKind(frames[i]));
		node.bytes += bytes;
	}
	if (!frames.length) {
		node = node.child("stack " + site.stack + " (no text)", "elided");
		node.bytes += bytes;
	}
}

// at: "peak" or "last".
function flameTree(story, processes, at, onlyPython) {
	const root = new FlameNode(processes.length === 1 ? processes[0].name :
		plural(processes.length, "process", "processes"), "root", null);
	for (const p of processes) {
		const whole = (at === "peak" ? p.peak_bytes : p.live_bytes) || 0;
		const sites = p.sites.map(s => [s, (at === "peak" ? s.bytes : s.last_bytes) || 0]).filter(([, bytes]) =>
			bytes > 0);
		const told = sites.reduce((n, [, bytes]) => n + bytes, 0), bytes = Math.max(whole, told);
		if (!bytes)
			continue;
		root.bytes += bytes;
		const parent = processes.length === 1 ? root : root.child(p.name + "\0" + p.number, "process");
		if (parent !== root) {
			parent.bytes = bytes;
			parent.process = p.number;
			parent.name = p.name;
		}
		for (const [site, n] of sites)
			addSite(story, parent, site, n, onlyPython);
		if (bytes > told)
			parent.child("\0rest", "rest").bytes = bytes - told;
	}
	return root;
}

class Flame {
	constructor(story) {
		this.story = story;
		this.process = null;
		this.at = "peak";
		this.onlyPython = false;
		this.words = "";
		this.box = el("div.flame", { role: "group", "aria-label":
			"Flame graph. Arrow keys go from frame to frame, Enter zooms." });
		this.said = el("p.said", { role: "status" });
		this.root = el("div.card", this.controls(), this.said, this.box, this.legend());
		on(this.box, "keydown", e => this.key(e));
		on(this.box, "mouseover", e => this.tell(e.target.closest(".frame")));
		on(this.box, "focusin", e => this.tell(e.target.closest(".frame")));
		on(this.box, "mouseleave", () => this.tell(null));
		on(this.box, "click", e => this.zoom(e.target.closest(".frame")));
		this.relayout = eachFrame(() => this.layout());
		this.width = 0;
		new ResizeObserver(() => {
			if (this.box.clientWidth !== this.width)
				this.relayout();
		}).observe(this.box);
	}

	controls() {
		this.choice = el("select", { "aria-label": "Process of the flame graph" },
			el("option", { value: "" }, "all processes"),
			this.story.processes.slice(0, FLAME_ALL_MAX).map(p =>
				el("option", { value: p.number }, clip(p.name, 60) + " \u2013 " +
				formatBytes(p.peak_bytes))));
		on(this.choice, "change", () => this.choose(this.choice.value === "" ? null :
			Number(this.choice.value)));
		const radios = [["peak", "when it held most"], ["last", "when last seen"]].map(([value, text]) => {
			const box = el("input", { type: "radio", name: "flame-at", value, checked: value === this.at });
			on(box, "change", () => {
				this.at = value;
				this.build();
			});
			return el("label.chip", box, text);
		});
		const python = el("input", { type: "checkbox" });
		on(python, "change", () => {
			this.onlyPython = python.checked;
			this.build();
		});
		const hasPython = Object.values(this.story.stacks).some(s =>
			(s.frames || []).some(f => frameKind(f) === "python"));
		this.search = el("input", { type: "search", placeholder: "find a frame", "aria-label": "Find frames",
			autocomplete: "off", spellcheck: "false" });
		on(this.search, "input", () => {
			this.words = this.search.value.trim().toLowerCase();
			this.layout();
		});
		this.out = el("button", { disabled: true, onclick: () => {
			this.top = this.tree;
			this.layout();
		} }, "Zoom out");
		return el("div.chips", this.choice, radios, hasPython ? el("label.chip", python, "Python frames only") :
			null, this.search,
			this.out);
	}

	legend() {
		return el("p.hint.legend", [["python", "Python"], ["native", "native"],
			["driver", "GPU driver and runtime"],
			["rest", "other call sites, not told one by one"]].map(([kind, text]) =>
				el("span", sign("swatch.k-" + kind), text)));
	}

	choose(number) {
		this.process = number;
		this.choice.value = number === null ? "" : String(number);
		this.build();
	}

	processes() {
		if (this.process !== null)
			return [this.story.processes[this.process]];
		return this.story.processes.filter(p => State.isShown(p.number)).slice(0, FLAME_ALL_MAX);
	}

	build() {
		this.tree = this.top = flameTree(this.story, this.processes(), this.at, this.onlyPython);
		this.layout();
	}

	label(n) {
		return n.kind === "rest" ? "other call sites" : n.name;
	}

	matches(n) {
		return this.words && n.kind !== "rest" && n.kind !== "root" &&
			n.name.toLowerCase().includes(this.words);
	}

	layout() {
		if (!this.tree)
			return;
		const width = this.width = this.box.clientWidth;
		this.nodes = [];
		this.found = 0;
		const above = [];
		for (let n = this.top.parent; n; n = n.parent)
			above.unshift(n);
		above.forEach((n, depth) => this.nodes.push({ n, depth, x: 0, w: width, isAbove: true }));
		if (this.tree.bytes > 0)
			this.place(this.top, above.length, 0, width, false);
		const depth = this.nodes.reduce((d, x) => Math.max(d, x.depth + 1), 0);
		this.box.style.height = depth * FLAME_ROW + "px";
		clear(this.box, ...this.nodes.map((x, i) => this.element(x, i)));
		this.out.disabled = this.top === this.tree;
		this.tell(null);
	}

	// Breadth does not matter, depth does: a stack of thousands of frames must not overflow ours.
	place(top, depth, x, w, isFound) {
		const todo = [{ n: top, depth, x, w, isFound }];
		while (todo.length && this.nodes.length < FLAME_NODES_MAX) {
			const t = todo.pop(), isMatch = this.matches(t.n);
			if (isMatch && !t.isFound)
				this.found += t.n.bytes;
			this.nodes.push({ n: t.n, depth: t.depth, x: t.x, w: t.w, isMatch });
			let at = t.x;
			const below = [];
			for (const c of t.n.sorted()) {
				const cw = t.n.bytes > 0 ? t.w * c.bytes / t.n.bytes : 0;
				if (cw >= 1.5)
					below.push({ n: c, depth: t.depth + 1, x: at, w: cw, isFound: t.isFound ||
						isMatch });
				else if (this.words && !t.isFound && !isMatch)
					this.found += this.matches(c) ? c.bytes : 0;
				at += cw;
			}
			todo.push(...below.reverse());
		}
	}

	element(x, i) {
		const n = x.n, text = this.label(n);
		const e = el("button", { class: "frame k-" + n.kind + (x.isAbove ? " above" : "") +
			(x.isMatch ? " match" : "") + (this.words && !x.isMatch ? " dim" : ""),
			tabindex: i === 0 ? "0" : "-1", "aria-label": clip(text, 200) + ", " + formatBytes(n.bytes) +
				", " + formatShare(n.bytes, this.tree.bytes) },
			x.w > 24 ? foreign(clip(text, Math.ceil(x.w / 5))) : null);
		if (n.kind === "process") {
			e.classList.add("swatch");
			e.dataset.process = n.process;
			Look.paint(e, Look.process(n.process));
			e.style.color = Look.inkOn(Look.process(n.process));
		}
		e.style.left = x.x + "px";
		e.style.top = x.depth * FLAME_ROW + "px";
		e.style.width = Math.max(1, x.w - 1) + "px";
		e.node = n;
		return e;
	}

	tell(e) {
		const whole = this.tree ? this.tree.bytes : 0;
		const found = this.words ? " Found: " + formatBytes(this.found) + " (" +
			formatShare(this.found, whole) + ")." : "";
		if (!e) {
			const what = this.process === null ? "each process at its own moment" : this.at === "peak" ?
				"when the process held most" : "when it was last seen";
			this.said.textContent = whole ? formatBytes(whole) + ", " + what + "." + found :
				"Nothing was held then." + found;
			return;
		}
		const n = e.node;
		clear(this.said, el("b", foreign(clip(this.label(n), 1000))), " " + formatBytes(n.bytes) + " (" +
			formatShare(n.bytes, whole) + " of " +
			formatBytes(whole) + ")." + found);
	}

	zoom(e) {
		if (!e)
			return;
		this.top = e.node;
		this.layout();
		this.focus(this.top);
	}

	focus(n) {
		const e = [...this.box.children].find(c => c.node === n);
		if (e)
			e.focus();
	}

	key(event) {
		const n = event.target.node;
		if (!n)
			return;
		const near = n.parent ? n.parent.sorted() : [n], i = near.indexOf(n);
		const to = { ArrowDown: n.sorted()[0], ArrowUp: n.parent, ArrowLeft: near[i - 1],
			ArrowRight: near[i + 1] }[event.key];
		if (event.key === "Escape") {
			this.top = this.tree;
			this.layout();
			this.focus(this.tree);
		} else if (to) {
			this.focus(to);
		} else {
			return;
		}
		event.preventDefault();
	}
}

function buildFlame(story) {
	if (!story.processes.some(p => p.sites.length))
		return null;
	const flame = new Flame(story);
	const part = section("sites", "Where the memory was allocated", flame.root);
	let isBuilt = false;
	const build = () => {
		if (isBuilt)
			return;
		isBuilt = true;
		flame.build();
	};
	whenNear(part, build);
	State.on("pick", () => {
		isBuilt = isBuilt && flame.choose(State.picked) === undefined;
		flame.process = State.picked;
		flame.choice.value = State.picked === null ? "" : String(State.picked);
	});
	State.on("filter", () => isBuilt && flame.build());
	State.on("print", () => comeNear(part));
	State.on("open-flame", number => {
		build();
		flame.choose(number);
		part.scrollIntoView();
		part.focus({ preventScroll: true });
	});
	return part;
}
