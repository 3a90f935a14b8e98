// SPDX-License-Identifier: MIT
// The story, made ready for questions: who held how much at a moment, and what a filter leaves of it.

const SEVERITIES = ["emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"];

function severityRank(name) {
	const i = SEVERITIES.indexOf(name);
	return i < 0 ? SEVERITIES.length : i;
}

// Four looks are enough for eight names.
function severityLook(name) {
	const r = severityRank(name);
	return r <= 2 ? "critical" : r === 3 ? "error" : r === 4 ? "warning" : "info";
}

const LOOK_SIGN = { critical: "\u25c6", error: "\u25b2", warning: "\u25cf", info: "\u25cb" };

// The first i of from..until of which test(i) does not hold, where it holds of all before.
function firstNot(from, until, test) {
	while (from < until) {
		const mid = (from + until) >> 1;
		if (test(mid))
			from = mid + 1;
		else
			until = mid;
	}
	return from;
}

// Bytes over time. A point [usec, low, high, live] says what was live then, and between which bounds it was since the point
// before; so a value stands until the next point.
class Series {
	constructor(points, end) {
		const n = points.length;
		this.t = new Float64Array(n);
		this.low = new Float64Array(n);
		this.high = new Float64Array(n);
		this.live = new Float64Array(n);
		for (let i = 0; i < n; i++) {
			this.t[i] = points[i][0];
			this.low[i] = points[i][1];
			this.high[i] = points[i][2];
			this.live[i] = points[i][3];
		}
		this.begin = n ? this.t[0] : end;
		this.end = n ? Math.max(end, this.t[n - 1]) : end;
	}

	// Number of the last point at or before t, -1 = none.
	index(t) {
		return firstNot(0, this.t.length, i => this.t[i] <= t) - 1;
	}

	valueFrom(i, t) {
		return i < 0 || t >= this.end ? 0 : this.live[i];
	}

	at(t) {
		return this.valueFrom(this.index(t), t);
	}

	// [low, high] of what it was around t: exact at a point, else since the point before.
	boundsAt(t) {
		const i = this.index(t), v = this.valueFrom(i, t);
		if (t < this.begin || t >= this.end)
			return [0, 0];
		const j = i >= 0 && this.t[i] === t ? i : i + 1;
		if (j >= this.t.length)
			return [v, v];
		return [Math.min(v, this.low[j]), Math.max(v, this.high[j])];
	}
}

// What several series are together, and the columns of a picture of it.
class Stack {
	constructor(series) {
		let n = 0;
		for (const s of series)
			n += s.t.length + 1;
		let all = new Float64Array(n);
		n = 0;
		for (const s of series) {
			all.set(s.t, n);
			n += s.t.length;
			all[n++] = s.end;
		}
		all.sort();
		let len = 0;
		for (let i = 0; i < n; i++)
			if (!i || all[i] !== all[i - 1])
				all[len++] = all[i];
		this.t = all.slice(0, len);
		this.total = new Float64Array(len + 1); // from t[i] on
		this.bound = new Float64Array(len + 2); // at most, from t[i - 1] until t[i]
		this.excess = new Float64Array(len); // how much more it may just have been at t[i] where series begin
		for (const s of series)
			this.add(s);
		for (let i = 1; i <= len; i++) {
			this.total[i] += this.total[i - 1];
			this.bound[i] += this.bound[i - 1];
		}
	}

	position(t, from) {
		return firstNot(from, this.t.length, i => this.t[i] < t);
	}

	// Differences, summed up afterwards.
	add(s) {
		const n = s.t.length;
		if (!n)
			return;
		let p = this.position(s.begin, 0), v = s.live[0];
		this.total[p] += v;
		this.excess[p] += s.high[0] - v;
		for (let i = 1; i < n; i++) {
			const q = this.position(s.t[i], p);
			const high = Math.max(v, s.high[i]);
			this.bound[p + 1] += high;
			this.bound[q + 1] -= high;
			this.total[q] += s.live[i] - v;
			v = s.live[i];
			p = q;
		}
		const q = this.position(s.end, p);
		this.bound[p + 1] += v;
		this.bound[q + 1] -= v;
		this.total[q] -= v;
	}

	// n columns of from..to. Each stands for its highest moment, so that no peak is lost however narrow: moment, total then,
	// most it can have been at any time in the column.
	columns(from, to, n) {
		const moment = new Float64Array(n), total = new Float64Array(n), bound = new Float64Array(n);
		const width = (to - from) / n, len = this.t.length;
		let k = firstNot(0, len, i => this.t[i] <= from) - 1;
		for (let c = 0; c < n; c++) {
			const a = from + c * width, b = c === n - 1 ? to : from + (c + 1) * width;
			while (k + 1 < len && this.t[k + 1] <= a)
				k++;
			moment[c] = a;
			total[c] = k >= 0 ? this.total[k] : 0;
			bound[c] = Math.max(total[c] + (this.t[k] === a ? this.excess[k] : 0), this.bound[k + 1] || 0);
			for (; k + 1 < len && this.t[k + 1] < b; k++) {
				if (this.total[k + 1] > total[c]) {
					total[c] = this.total[k + 1];
					moment[c] = this.t[k + 1];
				}
				bound[c] = Math.max(bound[c], this.total[k + 1] + this.excess[k + 1],
					this.bound[k + 2] || 0);
			}
		}
		return { moment, total, bound };
	}
}

// Of one series at moments that ascend.
function valuesAt(series, moments) {
	const out = new Float64Array(moments.length);
	let i = moments.length ? series.index(moments[0]) : -1;
	for (let c = 0; c < moments.length; c++) {
		while (i + 1 < series.t.length && series.t[i + 1] <= moments[c])
			i++;
		out[c] = series.valueFrom(i, moments[c]);
	}
	return out;
}

// Lowest and highest of one series in each column.
function envelope(series, from, to, n) {
	const low = new Float64Array(n), high = new Float64Array(n), width = (to - from) / n;
	let i = series.index(from);
	for (let c = 0; c < n; c++) {
		const a = from + c * width, b = from + (c + 1) * width;
		if (b <= series.begin || a >= series.end)
			continue;
		const v = series.boundsAt(Math.max(a, series.begin));
		[low[c], high[c]] = v;
		while (i + 1 < series.t.length && series.t[i + 1] < b) {
			i++;
			low[c] = Math.min(low[c], series.low[i]);
			high[c] = Math.max(high[c], series.high[i]);
		}
		// The column's end lies before the next point, whose bounds reach back to here.
		if (i + 1 < series.t.length && b < series.end) {
			low[c] = Math.min(low[c], series.low[i + 1]);
			high[c] = Math.max(high[c], series.high[i + 1]);
		}
	}
	return { low, high };
}

class Story {
	constructor(json) {
		this.json = json;
		this.from = json.from_usec;
		this.until = Math.max(json.until_usec, json.from_usec + 1000);
		this.hosts = json.hosts || [];
		this.stacks = json.stacks || {};
		this.gaps = json.gaps || [];
		this.leftOut = (json.left_out || []).filter(l => l.count);
		this.processes = (json.processes || []).map((p, i) => this.process(p, i));
		this.devices = (json.devices || []).map((d, i) => this.device(d, i));
		this.incidents = (json.incidents || []).map((x, number) => ({ ...x, number }));
		this.failures = (json.failures || []).map((x, number) => ({ ...x, number }));
		this.nameless = new Map();
		for (const p of this.processes)
			for (const h of p.held)
				(h.device === null ? this.namelessDevice(p.host) :
					this.devices[h.device]).layers.push({ process: p, series: h.series,
					peak: h.peak_bytes });
		for (const d of this.devices)
			d.layers.sort((a, b) => b.peak - a.peak);
	}

	hostName(i) {
		return this.hosts[i] ? clip(this.hosts[i].name, 64) : "";
	}

	process(p, number) {
		const end = p.end_usec || (p.ended || p.cut ? p.last_usec : this.until);
		const q = { ...p, number, endsAt: end };
		q.held = (p.held || []).map(h => ({ ...h,
			series: new Series(h.points || [], Math.min(end, this.until)) }));
		q.name = (p.comm || "?") + "[" + p.pid + "]" + (p.unit ? " " + p.unit.slice(0, 24) : "");
		/* Where it belongs: a pod's name says more than the unit that its container is. */
		q.loc = p.unit || p.container_name || p.container || p.slurm_job;
		if (p.pod_name)
			q.pod = q.loc = p.pod_namespace + "/" + p.pod_name;
		q.sites = p.sites || [];
		q.words = { process: q.name + " " + [p.exe, p.cmdline, p.tag].join(" "),
			pid: String(p.pid), unit: p.unit,
			user: p.user, host: this.hostName(p.host),
				container: [p.container, p.container_name, p.pod, q.pod].join(" ").trim(), job: p.slurm_job };
		return q;
	}

	device(d, number) {
		const host = this.hosts.length > 1 ? this.hostName(d.host) + " " : "";
		const used = (d.used || []).length ? new Series(d.used, this.until) : null;
		return { ...d, number, used, layers: [], name: host +
			(d.index !== null ? "GPU " + d.index : (d.uuid || "?").slice(0, 12)) };
	}

	namelessDevice(host) {
		let d = this.nameless.get(host);
		if (!d) {
			d = this.device({ host, uuid: "", index: null, total_bytes: null, peak_bytes: null,
				peak_usec: 0, used: [] },
				this.devices.length);
			d.name = (this.hosts.length > 1 ? this.hostName(host) + " " : "") + "device without a name";
			this.nameless.set(host, d);
			this.devices.push(d);
		}
		return d;
	}

	deviceName(i) {
		return this.devices[i] ? this.devices[i].name : null;
	}

	// Is this incident or failure one to be seen on the device's plot?
	concerns(x, device) {
		if (isKnown(x.device))
			return x.device === device.number;
		if (x.host !== device.host)
			return false;
		if (!isKnown(x.process))
			return true;
		return device.layers.some(l => l.process.number === x.process);
	}

	frames(stack) {
		const s = stack && Object.hasOwn(this.stacks, stack) ? this.stacks[stack] : null;
		return { frames: s && s.frames ? s.frames : [], info: s ? s.info : null };
	}
}

// "alice unit:train" -> test of a process: every word has to be found, one with a name in that place only.
function parseFilter(text) {
	const words = text.toLowerCase().split(/\s+/).filter(Boolean).map(w => {
		const m = /^(process|pid|unit|user|host|container|job):(.*)$/.exec(w);
		return m ? { key: m[1], text: m[2] } : { key: null, text: w };
	}).filter(w => w.text);
	if (!words.length)
		return null;
	const has = (value, text) => isKnown(value) && value.toLowerCase().includes(text);
	return wordsOf => words.every(w => w.key ? has(wordsOf[w.key], w.text) :
		Object.values(wordsOf).some(v => has(v, w.text)));
}

// What is chosen, and who wants to know: "view", "cursor", "pick", "filter", "look" (theme, zone).
const State = {
	story: null,
	from: 0, to: 0,
	cursor: null, // moment pointed at
	picked: null, // number of a process
	matches: null, // Set of process numbers, null = all
	test: null,
	listeners: {},
	on(names, fn) {
		for (const what of names.split(" "))
			(this.listeners[what] = this.listeners[what] || []).push(fn);
	},
	emit(what, arg) {
		for (const fn of this.listeners[what] || [])
			fn(arg);
	},
	setView(from, to) {
		const s = this.story, whole = s.until - s.from;
		const span = Math.min(whole, Math.max(to - from, Math.min(whole, 1e4)));
		const a = Math.min(Math.max(from, s.from), s.until - span);
		if (a === this.from && a + span === this.to)
			return;
		this.from = a;
		this.to = a + span;
		this.emit("view");
	},
	zoom(factor, around) {
		const t = isKnown(around) ? around : (this.from + this.to) / 2;
		this.setView(t - (t - this.from) * factor, t + (this.to - t) * factor);
	},
	reset() {
		this.setView(this.story.from, this.story.until);
	},
	isWhole() {
		return this.from <= this.story.from && this.to >= this.story.until;
	},
	setCursor(t) {
		if (t === this.cursor)
			return;
		this.cursor = t;
		this.emit("cursor");
	},
	pick(number) {
		this.picked = this.picked === number ? null : number;
		this.emit("pick");
	},
	filter(text) {
		this.test = parseFilter(text);
		this.matches = this.test ? new Set(this.story.processes.filter(p => this.test(p.words)).map(p =>
			p.number)) : null;
		this.emit("filter");
	},
	isShown(number) {
		return !this.matches || this.matches.has(number);
	},
};
