// SPDX-License-Identifier: MIT
// plain KEY: C++ without exceptions, whose unwind tables serve debuggers and profilers alone.
#include <cstdlib>

#include "stack.h"

namespace app
{

struct Node {
	Node *next;
	FRAME int walk(int n);
};

FRAME int Node::walk(int n)
{
	int r = next ? next->walk(n + 1) : n;

	if (!next)
		stack_alloc();
	KEEP_FRAME();
	return r + 1;
}

template <int N> FRAME static int repeat(Node *n)
{
	int r = n->walk(N);

	KEEP_FRAME();
	return r;
}

} // namespace app

int main(int argc, char **argv)
{
	app::Node c = { nullptr }, b = { &c }, a = { &b };

	if (argc < 2)
		return 2;
	stack_key = strtoull(argv[1], nullptr, 10);
	stack_open();
	app::repeat<7>(&a);
	stack_say("done");
	stack_wait();
	return 0;
}
