/* SPDX-License-Identifier: MIT */
/*
 * Streams, events, and the capture of streams into graphs. Nothing runs here, so a stream is only what it is captured into.
 * A stream that waits for an event of a capture joins it, and has to be waited for before the capture ends.
 */
#include "libcuda.h"

#define STREAM_MAX 4096
#define EVENT_MAX 8192
#define CAPTURE_MAX 1024

struct capture {
	uint64_t id; /* 0 = free place */
	CUstream origin;
	CUgraph graph;
	int mode;
	bool is_given; /* into a graph of the program's */
	bool is_spoilt;
};

struct CUstream_st {
	bool is_alive;
	struct capture *capture;
	uint64_t work;	 /* so much was captured of it */
	uint64_t waited; /* so much of that others wait for */
};

struct CUevent_st {
	bool is_alive;
	uint64_t capture; /* id, 0 = not recorded in one */
	CUstream stream;
	uint64_t work;
};

/* All under the graphs' lock, but for the look whether a stream captures at all. */
static struct CUstream_st streams[STREAM_MAX];
static struct CUevent_st events[EVENT_MAX];
static struct capture captures[CAPTURE_MAX];
static uint64_t next_capture;
static int global_count; /* captures in global mode */

/* 0, 1 and 2 are names of the default streams, which cannot be captured here. */
static bool is_default(CUstream stream)
{
	return (uintptr_t)stream <= 2;
}

CUresult stream_check(CUstream stream)
{
	uintptr_t at = (uintptr_t)stream - (uintptr_t)streams;

	if (is_default(stream))
		return CUDA_SUCCESS;
	if (at >= sizeof(streams) || at % sizeof(streams[0]) || !__atomic_load_n(&stream->is_alive, __ATOMIC_ACQUIRE))
		return ERROR_INVALID_HANDLE;
	return CUDA_SUCCESS;
}

bool stream_captures(CUstream stream)
{
	return !is_default(stream) && __atomic_load_n(&stream->capture, __ATOMIC_ACQUIRE);
}

static CUresult event_check(CUevent event)
{
	uintptr_t at = (uintptr_t)event - (uintptr_t)events;

	if (at >= sizeof(events) || at % sizeof(events[0]) || !__atomic_load_n(&event->is_alive, __ATOMIC_ACQUIRE))
		return ERROR_INVALID_HANDLE;
	return CUDA_SUCCESS;
}

/* With the lock: the graph to capture into. */
static CUresult capture_graph(CUstream stream, struct graph **ret)
{
	struct capture *c = stream->capture;

	if (!c) /* ended in between */
		return ERROR_CAPTURE_INVALIDATED;
	*ret = c->is_spoilt ? NULL : graph_find(c->graph);
	if (*ret)
		stream->work++;
	return *ret ? CUDA_SUCCESS : ERROR_CAPTURE_INVALIDATED;
}

CUresult capture_alloc(CUstream stream, uint64_t bytes, int device, uint64_t *ret_addr)
{
	struct graph *g;
	CUresult r;

	graph_lock();
	r = capture_graph(stream, &g);
	if (!r)
		r = graph_add_alloc(g, bytes, device, true, ret_addr);
	graph_unlock();
	return r;
}

CUresult capture_free(CUstream stream, uint64_t addr)
{
	struct graph *g;
	CUresult r;

	graph_lock();
	r = capture_graph(stream, &g);
	if (!r)
		r = graph_add_free(g, addr);
	graph_unlock();
	return r;
}

CUresult capture_forbids(void)
{
	if (!__atomic_load_n(&global_count, __ATOMIC_ACQUIRE))
		return CUDA_SUCCESS;
	graph_lock();
	for (struct capture *c = captures; c < captures + CAPTURE_MAX; c++)
		if (c->id && c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
			c->is_spoilt = true;
	graph_unlock();
	return ERROR_CAPTURE_UNSUPPORTED;
}

CUresult stream_uncaptured(CUstream stream)
{
	CUresult r = stream_check(stream);

	if (r || !stream_captures(stream))
		return r;
	graph_lock();
	if (stream->capture)
		stream->capture->is_spoilt = true;
	graph_unlock();
	return ERROR_CAPTURE_UNSUPPORTED;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	struct CUctx_st *ctx;
	CUresult r = context_current(&ctx);

	if (r)
		return r;
	if (!out_is_plausible(stream) || flags & ~1u)
		return CUDA_ERROR_INVALID_VALUE;
	r = CUDA_ERROR_OUT_OF_MEMORY;
	graph_lock();
	for (CUstream s = streams; s < streams + STREAM_MAX && r; s++) {
		if (s->is_alive)
			continue;
		s->capture = NULL;
		__atomic_store_n(&s->is_alive, true, __ATOMIC_RELEASE);
		*stream = s;
		r = CUDA_SUCCESS;
	}
	graph_unlock();
	return r;
}

/* With the lock: nothing captures into it any more. */
static void capture_end(struct capture *c)
{
	for (CUstream s = streams; s < streams + STREAM_MAX; s++)
		if (s->capture == c)
			__atomic_store_n(&s->capture, NULL, __ATOMIC_RELEASE);
	if (c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
		__atomic_fetch_sub(&global_count, 1, __ATOMIC_RELEASE);
	c->id = 0;
}

static void capture_discard(struct capture *c)
{
	if (!c->is_given)
		graph_end(c->graph);
	capture_end(c);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
	CUresult r = driver_ready();

	if (!r)
		r = is_default(stream) ? CUDA_ERROR_INVALID_VALUE : stream_check(stream);
	if (r)
		return r;
	graph_lock();
	if (stream->capture && stream->capture->origin == stream)
		capture_discard(stream->capture);
	else if (stream->capture)
		stream->capture->is_spoilt = true;
	stream->capture = NULL;
	__atomic_store_n(&stream->is_alive, false, __ATOMIC_RELEASE);
	graph_unlock();
	return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
	CUresult r = driver_ready();

	if (!r)
		r = stream_uncaptured(stream);
	if (!r)
		pools_synchronize();
	return r;
}

/* With the lock. graph NULL: into a new one. */
static CUresult capture_begin(CUstream stream, CUgraph graph, int mode)
{
	struct capture *c = captures;

	if (stream->capture)
		return ERROR_ILLEGAL_STATE;
	while (c < captures + CAPTURE_MAX && c->id)
		c++;
	if (c == captures + CAPTURE_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (graph ? !graph_find(graph) : !graph_new(&c->graph))
		return graph ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
	if (graph)
		c->graph = graph;
	c->id = ++next_capture;
	c->origin = stream;
	c->mode = mode;
	c->is_given = graph;
	c->is_spoilt = false;
	if (mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
		__atomic_fetch_add(&global_count, 1, __ATOMIC_RELEASE);
	stream->work = stream->waited = 0;
	__atomic_store_n(&stream->capture, c, __ATOMIC_RELEASE);
	return CUDA_SUCCESS;
}

static CUresult begin(CUstream stream, CUgraph graph, int mode)
{
	struct CUctx_st *ctx;
	CUresult r = context_current(&ctx);

	if (!r)
		r = is_default(stream) ? ERROR_CAPTURE_UNSUPPORTED : stream_check(stream);
	if (!r && (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	graph_lock();
	r = capture_begin(stream, graph, mode);
	graph_unlock();
	return r;
}

CUresult cuStreamBeginCapture(CUstream stream)
{
	return begin(stream, NULL, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
	return begin(stream, NULL, mode);
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode)
{
	return begin(stream, NULL, mode);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *deps, const void *edges,
				     size_t n, int mode)
{
	(void)edges;
	if (!graph || (n && !out_is_plausible(deps)))
		return CUDA_ERROR_INVALID_VALUE;
	return begin(stream, graph, mode);
}

/* With the lock: is there work of a stream that joined which nobody waits for? */
static bool is_unjoined(const struct capture *c)
{
	for (CUstream s = streams; s < streams + STREAM_MAX; s++)
		if (s->capture == c && s != c->origin && s->work > s->waited)
			return true;
	return false;
}

static CUresult end_locked(CUstream stream, CUgraph *graph)
{
	struct capture *c = stream->capture;

	if (!c)
		return ERROR_ILLEGAL_STATE;
	*graph = NULL;
	if (c->origin != stream) {
		c->is_spoilt = true;
		return ERROR_CAPTURE_UNMATCHED;
	}
	if (c->is_spoilt || !graph_find(c->graph)) {
		capture_discard(c);
		return ERROR_CAPTURE_INVALIDATED;
	}
	if (is_unjoined(c)) {
		capture_discard(c);
		return ERROR_CAPTURE_UNJOINED;
	}
	*graph = c->graph;
	capture_end(c);
	return CUDA_SUCCESS;
}

static CUresult end(CUstream stream, CUgraph *graph)
{
	CUresult r = driver_ready();

	if (!r)
		r = is_default(stream) ? ERROR_ILLEGAL_STATE : stream_check(stream);
	if (!r && !out_is_plausible(graph))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	graph_lock();
	r = end_locked(stream, graph);
	graph_unlock();
	return r;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	return end(stream, graph);
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
	return end(stream, graph);
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	struct CUctx_st *ctx;
	CUresult r = context_current(&ctx);

	if (r)
		return r;
	if (!out_is_plausible(event) || flags & ~7u)
		return CUDA_ERROR_INVALID_VALUE;
	r = CUDA_ERROR_OUT_OF_MEMORY;
	graph_lock();
	for (CUevent e = events; e < events + EVENT_MAX && r; e++) {
		if (e->is_alive)
			continue;
		e->capture = 0;
		__atomic_store_n(&e->is_alive, true, __ATOMIC_RELEASE);
		*event = e;
		r = CUDA_SUCCESS;
	}
	graph_unlock();
	return r;
}

CUresult cuEventDestroy_v2(CUevent event)
{
	CUresult r = driver_ready();

	if (r)
		return r;
	graph_lock();
	r = event_check(event);
	if (!r)
		__atomic_store_n(&event->is_alive, false, __ATOMIC_RELEASE);
	graph_unlock();
	return r;
}

static CUresult event_stream_check(CUevent event, CUstream stream)
{
	CUresult r = driver_ready();

	if (!r)
		r = event_check(event);
	return r ? r : stream_check(stream);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
	CUresult r = event_stream_check(event, stream);

	if (r)
		return r;
	graph_lock();
	event->capture = stream_captures(stream) ? stream->capture->id : 0;
	event->stream = stream;
	event->work = event->capture ? stream->work : 0;
	graph_unlock();
	return CUDA_SUCCESS;
}

/* With the lock. */
static CUresult join(CUstream stream, CUevent event)
{
	struct capture *c = captures;

	while (c < captures + CAPTURE_MAX && c->id != event->capture)
		c++;
	if (c == captures + CAPTURE_MAX) /* that capture is over */
		return CUDA_ERROR_INVALID_VALUE;
	if (is_default(stream) || (stream->capture && stream->capture != c)) {
		c->is_spoilt = true;
		return ERROR_CAPTURE_UNSUPPORTED;
	}
	if (!stream->capture) {
		stream->work = stream->waited = 0;
		__atomic_store_n(&stream->capture, c, __ATOMIC_RELEASE);
	} else if (event->stream != stream && event->stream->capture == c) {
		if (event->work > event->stream->waited)
			event->stream->waited = event->work;
		stream->work++;
	}
	return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	CUresult r = event_stream_check(event, stream);

	if (r)
		return r;
	if (flags & ~1u)
		return CUDA_ERROR_INVALID_VALUE;
	graph_lock();
	if (event->capture)
		r = join(stream, event);
	graph_unlock();
	return r;
}
