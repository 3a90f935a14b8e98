/* SPDX-License-Identifier: MIT */
#include "record/queue.h"

#include "base/cleanup.h"

void queue_init(struct queue *q, size_t max)
{
	*q = (struct queue){ .max = max };
	for (size_t i = 0; i < QUEUE_RANKS; i++)
		q->last[i] = &q->first[i];
}

static void *pop_rank(struct queue *q, unsigned rank)
{
	struct queue_node *n = q->first[rank];
	void *data = n->data;

	q->first[rank] = n->next;
	if (!q->first[rank])
		q->last[rank] = &q->first[rank];
	q->len--;
	free(n);
	return data;
}

void queue_push(struct queue *q, void *data, unsigned rank, void **ret_out)
{
	struct queue_node *n;
	unsigned lowest = 0;

	*ret_out = NULL;
	rank = MIN(rank, QUEUE_RANKS - 1u);
	n = malloc(sizeof(*n));
	while (lowest < rank && !q->first[lowest])
		lowest++;
	if (!n || (q->len >= q->max && !q->first[lowest])) {
		free(n);
		*ret_out = data;
		return;
	}
	if (q->len >= q->max)
		*ret_out = pop_rank(q, lowest);
	*n = (struct queue_node){ .seq = q->seq++, .data = data };
	*q->last[rank] = n;
	q->last[rank] = &n->next;
	q->len++;
}

void *queue_pop(struct queue *q)
{
	unsigned oldest = QUEUE_RANKS;

	for (unsigned i = 0; i < QUEUE_RANKS; i++)
		if (q->first[i] && (oldest == QUEUE_RANKS || q->first[i]->seq < q->first[oldest]->seq))
			oldest = i;
	return oldest < QUEUE_RANKS ? pop_rank(q, oldest) : NULL;
}
