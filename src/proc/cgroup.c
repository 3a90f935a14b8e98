/* SPDX-License-Identifier: MIT */
#include "proc/procfs.h"

#include "proc/cgroup_container.h"
#include "proc/span.h"

#define UNIT_NAME_MAX 255
#define SLURM_JOB_DIGITS 10
#define DELETED " (deleted)"

/* A component as the name of a unit: systemd puts a _ before names that the kernel could take for its own. */
static bool unit_name(struct span c, struct span *ret)
{
	if (c.len > 0 && c.p[0] == '_')
		c = span_from(c, 1);
	if (c.len == 0 || c.len > UNIT_NAME_MAX || c.p[0] == '.' || c.p[0] == '@' || span_contains(c, "@."))
		return false;
	for (size_t i = 0; i < c.len; i++) {
		unsigned char b = (unsigned char)c.p[i];

		if (!((b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || (b >= '0' && b <= '9') ||
		      (b != '\0' && strchr(":-_.\\@", b))))
			return false;
	}
	*ret = c;
	return true;
}

static bool unit_from_component(struct span c, struct span *ret)
{
	static const char *const suffixes[] = { ".service", ".scope", ".socket", ".mount", ".swap" };

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		if (span_ends(c, suffixes[i]))
			return unit_name(c, ret);
	}
	return false;
}

static bool is_user_manager(struct span unit)
{
	return span_starts(unit, "user@") && span_ends(unit, ".service");
}

/*
 * The unit is the first component that is no slice; below a user manager there is a second one, of its own. The slice
 * is the innermost above them: what a service makes below its own group is still that service, whatever it is called.
 */
static int cgroup_units(struct span path, struct cgroup_names *n)
{
	struct span c, found, slice = { 0 }, unit = { 0 }, user_unit = { 0 };
	int r;

	while (user_unit.len == 0 && span_next(&path, '/', &c)) {
		/* Out of a cgroup namespace the path goes up first. */
		if (span_is(c, ".."))
			continue;
		if (span_ends(c, ".slice")) {
			(void)unit_name(c, &slice);
			continue;
		}
		if (!unit_from_component(c, &found))
			break;
		if (unit.len > 0) {
			user_unit = found;
			continue;
		}
		unit = found;
		if (!is_user_manager(unit))
			break;
	}
	r = span_copy(unit, &n->unit);
	if (r == 0)
		r = span_copy(user_unit, &n->user_unit);
	if (r == 0)
		r = span_copy(slice, &n->slice);
	return r;
}

/* "batch", "extern", "interactive", a number, or two numbers of a heterogeneous job: "0+1". */
static bool is_slurm_step(struct span s)
{
	const char *plus = memchr(s.p, '+', s.len);
	size_t len = plus ? (size_t)(plus - s.p) : s.len;

	if (span_is(s, "batch") || span_is(s, "extern") || span_is(s, "interactive"))
		return true;
	return s.len <= 2 * SLURM_JOB_DIGITS + 1 && span_is_number((struct span){ s.p, len }) &&
	       (!plus || span_is_number(span_from(s, len + 1)));
}

/* job_JOB/step_STEP at the start of the path. */
static int slurm_job(struct span path, char **ret)
{
	struct span job, step;

	if (!span_next(&path, '/', &job) || !span_starts(job, "job_"))
		return 0;
	job = span_from(job, strlen("job_"));
	if (!span_is_number(job) || job.len > SLURM_JOB_DIGITS)
		return 0;
	if (!span_next(&path, '/', &step) || !span_starts(step, "step_") ||
	    !is_slurm_step(span_from(step, strlen("step_"))))
		return span_copy(job, ret);
	step = span_from(step, strlen("step_"));
	if (asprintf(ret, "%.*s.%.*s", (int)job.len, job.p, (int)step.len, step.p) < 0) {
		*ret = NULL;
		return -ENOMEM;
	}
	return 0;
}

/*
 * slurmstepd.scope/job_1/step_0 or NODE_slurmstepd.scope/... (version 2), slurm/uid_1000/job_1/step_0 or slurm_NODE/...
 * (version 1). The outermost counts, and below a user's own manager nothing does, where everybody makes the groups they
 * like.
 */
static int cgroup_slurm(struct span path, struct cgroup_names *n)
{
	struct span c, uid;

	while (!n->slurm_job && span_next(&path, '/', &c)) {
		struct span rest = path;
		int r = 0;

		if (is_user_manager(c))
			return 0;
		if (span_is(c, "slurmstepd.scope") || span_ends(c, "_slurmstepd.scope"))
			r = slurm_job(rest, &n->slurm_job);
		else if ((span_is(c, "slurm") || span_starts(c, "slurm_")) && span_next(&rest, '/', &uid) &&
			 span_starts(uid, "uid_") && span_is_number(span_from(uid, strlen("uid_"))))
			r = slurm_job(rest, &n->slurm_job);
		if (r < 0)
			return r;
	}
	return 0;
}

/* "4:memory:/path"; the path may hold colons. */
static bool cgroup_line(struct span line, struct span *ret_controllers, struct span *ret_path)
{
	const char *first = memchr(line.p, ':', line.len), *second;

	if (!first || !span_is_number((struct span){ line.p, (size_t)(first - line.p) }))
		return false;
	first++;
	second = memchr(first, ':', line.len - (size_t)(first - line.p));
	if (!second)
		return false;
	*ret_controllers = (struct span){ first, (size_t)(second - first) };
	second++;
	*ret_path = span_without((struct span){ second, line.len - (size_t)(second - line.p) }, DELETED);
	return ret_path->len > 0 && ret_path->p[0] == '/';
}

/*
 * The path that tells most. The unified hierarchy has a line even on a host that only uses the old ones, and says /
 * there; a host without systemd has neither, but its controllers have paths.
 */
static bool cgroup_best_path(struct span text, struct span *ret)
{
	struct span rest = text, line, controllers, path, unified = { 0 }, systemd = { 0 }, other = { 0 };

	while (span_next(&rest, '\n', &line)) {
		if (!cgroup_line(line, &controllers, &path))
			continue;
		if (controllers.len == 0)
			unified = path;
		else if (span_is(controllers, "name=systemd"))
			systemd = path;
		else if (other.len <= 1)
			other = path;
	}
	if (unified.len > 1 || (unified.len == 1 && systemd.len <= 1 && other.len <= 1))
		*ret = unified;
	else if (systemd.len > 1 || (systemd.len == 1 && other.len <= 1))
		*ret = systemd;
	else
		*ret = other;
	return ret->len > 0;
}

/* What is not known yet. */
static int cgroup_attribution(struct span path, struct cgroup_names *n)
{
	int r = cgroup_containers(path, n);

	return r < 0 ? r : cgroup_slurm(path, n);
}

int cgroup_parse(const char *text, struct cgroup_names *ret)
{
	_cleanup_(cgroup_names_done) struct cgroup_names n = { 0 };
	struct span rest = span_of(text), line, controllers, path;
	int r;

	if (!cgroup_best_path(rest, &path))
		return -EINVAL;
	r = span_copy(path, &n.path);
	if (r < 0)
		return r;
	r = cgroup_units(path, &n);
	if (r < 0)
		return r;
	r = cgroup_attribution(path, &n);
	if (r < 0)
		return r;
	/* In the hybrid layout a runtime may have moved the process in some hierarchies only. */
	while (span_next(&rest, '\n', &line)) {
		if (!cgroup_line(line, &controllers, &path))
			continue;
		r = cgroup_attribution(path, &n);
		if (r < 0)
			return r;
	}
	*ret = n;
	n = (struct cgroup_names){ 0 };
	return 0;
}

void cgroup_names_done(struct cgroup_names *n)
{
	free(n->path);
	free(n->unit);
	free(n->user_unit);
	free(n->container);
	free(n->runtime);
	free(n->pod);
	free(n->slice);
	free(n->slurm_job);
	*n = (struct cgroup_names){ 0 };
}
