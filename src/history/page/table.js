// SPDX-License-Identifier: MIT
// A table that sorts, shows a page at a time however many rows there are, and unfolds a row.

class Table {
	// columns: [{ name, key(row) to sort by, cell(row) -> node or text, class, descends }]; options: { label, rows, pageSize, sort,
	// details(row) -> node, id(row), mark(tr, row), onPage(rows) }
	constructor(columns, options) {
		this.columns = columns;
		this.options = options;
		this.rows = options.rows;
		this.sort = options.sort || { column: 0, descends: false };
		this.page = 0;
		this.open = new Set();
		this.heads = columns.map((c, i) => this.headCell(c, i));
		this.body = el("tbody");
		this.pager = el("nav.pager", { "aria-label": "Pages of " + options.label });
		this.root = el("div.table",
			el("table", { "aria-label": options.label }, el("thead", el("tr", this.heads)), this.body),
				this.pager);
		this.setRows(options.rows);
	}

	headCell(c, i) {
		if (!c.key)
			return el("th", { scope: "col", class: c.class }, c.name);
		return el("th", { scope: "col", class: c.class },
			el("button", { onclick: () => this.sortBy(i) }, c.name,
			sign("arrow")));
	}

	sortBy(i) {
		const isSame = this.sort.column === i;
		this.sort = { column: i, descends: isSame ? !this.sort.descends : Boolean(this.columns[i].descends) };
		this.page = 0;
		this.setRows(this.rows);
	}

	setRows(rows) {
		const { column, descends } = this.sort, key = this.columns[column].key, sign = descends ? -1 : 1;
		const keyed = rows.map((row, i) => ({ row, i, k: key(row) }));
		// What has no value comes last, whichever way.
		keyed.sort((a, b) => {
			const x = a.k, y = b.k, xNone = !isKnown(x), yNone = !isKnown(y);
			if (xNone || yNone)
				return xNone - yNone || a.i - b.i;
			return (x < y ? -sign : x > y ? sign : 0) || a.i - b.i;
		});
		this.rows = rows;
		this.sorted = keyed.map(k => k.row);
		this.heads.forEach((h, i) => {
			if (this.columns[i].key)
				h.setAttribute("aria-sort", i !== column ? "none" : descends ? "descending" :
					"ascending");
		});
		this.page = Math.min(this.page, this.pages() - 1);
		this.show();
	}

	pages() {
		return Math.max(1, Math.ceil(this.sorted.length / this.options.pageSize));
	}

	visible() {
		return this.sorted.slice(this.page * this.options.pageSize, (this.page + 1) * this.options.pageSize);
	}

	show() {
		clear(this.body, ...this.visible().flatMap(row => this.rowNodes(row)));
		if (!this.sorted.length)
			this.body.append(el("tr", el("td.none", { colspan: this.columns.length }, this.options.none ||
				"Nothing.")));
		this.showPager();
		if (this.options.onPage)
			this.options.onPage();
	}

	rowNodes(row) {
		const id = this.options.id(row), isOpen = this.open.has(id);
		const toggle = el("button.fold", { "aria-expanded": String(isOpen), "aria-label":
			"Details of " + clip(this.options.name(row), 120), onclick: () => this.toggle(row) });
		const tr = el("tr", { id, class: "main" + (isOpen ? " open" : ""), tabindex: "-1" },
			this.columns.map((c, i) =>
			el("td", { class: c.class, "data-name": c.name }, i ? null : toggle, c.cell(row))));
		on(tr, "click", e => {
			if (!e.target.closest("a, button, select, input") && !getSelection().toString())
				this.toggle(row);
		});
		if (this.options.mark)
			this.options.mark(tr, row);
		return isOpen ? [tr, this.detailRow(row)] : [tr];
	}

	detailRow(row) {
		return el("tr.details", el("td", { colspan: this.columns.length }, this.options.details(row)));
	}

	toggle(row) {
		const id = this.options.id(row), tr = byId(id), isOpen = !this.open.has(id);
		if (isOpen)
			this.open.add(id);
		else
			this.open.delete(id);
		tr.classList.toggle("open", isOpen);
		tr.querySelector(".fold").setAttribute("aria-expanded", String(isOpen));
		if (isOpen)
			tr.after(this.detailRow(row));
		else if (tr.nextSibling && tr.nextSibling.classList.contains("details"))
			tr.nextSibling.remove();
	}

	// Turns to the page of a row, unfolds it and goes there. False: it is not in the table.
	reveal(row) {
		const i = this.sorted.indexOf(row), id = this.options.id(row);
		if (i < 0)
			return false;
		this.open.add(id);
		this.page = Math.floor(i / this.options.pageSize);
		this.show();
		goTo(byId(id));
		return true;
	}

	turn(page) {
		this.page = Math.min(Math.max(0, page), this.pages() - 1);
		this.show();
	}

	showPager() {
		const n = this.sorted.length, size = this.options.pageSize, first = this.page * size;
		this.pager.hidden = n <= size;
		if (this.pager.hidden)
			return;
		const button = (text, label, page) => el("button",
			{ "aria-label": label, disabled: page < 0 || page >= this.pages() ||
			page === this.page, onclick: () => this.turn(page) }, text);
		clear(this.pager, button("\u00ab", "First page", 0), button("\u2039", "Page before", this.page - 1),
			el("span", formatCount(first + 1) + "\u2013" + formatCount(Math.min(n, first + size)) + " of " +
				formatCount(n)),
			button("\u203a", "Next page", this.page + 1), button("\u00bb", "Last page", this.pages() - 1));
	}
}

// Scrolls there, and shows for a moment which one is meant.
function goTo(e) {
	const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
	e.scrollIntoView({ block: "center", behavior: still ? "auto" : "smooth" });
	e.focus({ preventScroll: true });
	e.classList.remove("meant");
	void e.offsetWidth;
	e.classList.add("meant");
}

function stackView(story, id, title) {
	if (!id)
		return null;
	const s = story.frames(id);
	return el("div.stack", el("h4", title, " ", el("code.id", id)),
		s.frames.length ? el("ol", s.frames.map(f => el("li", { class: frameKind(f) }, foreign(f)))) :
			el("p.note", "No text of it was told."),
		s.info ? el("p.note", foreign(s.info)) : null);
}

// [name, value] pairs; those without a value are left out.
function factList(pairs) {
	return el("dl.factlist", pairs.filter(([, v]) => isKnown(v) && v !== "" && v !== NONE).map(([k, v]) =>
		el("div", el("dt", k), el("dd", v instanceof Node ? v : foreign(String(v))))));
}

function processButton(story, number) {
	const p = story.processes[number];
	if (!p)
		return null;
	return el("button.link.process", { onclick: () => {
		State.picked = null;
		State.pick(number);
	}, title: "Follow this process" }, Look.swatch(number), foreign(clip(p.name, 80)));
}
