// SPDX-License-Identifier: MIT
// throws KEY: C++ in which exceptions were thrown and caught before, and while, something is allocated.
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>

#include "stack.h"

namespace app
{

struct Guard {
	~Guard() { KEEP_FRAME(); }
};

class Worker
{
public:
	explicit Worker(int n) : name(std::to_string(n)) {}
	FRAME virtual int run(int depth);
	virtual ~Worker() {}

private:
	std::string name;
};

static FRAME void thrower(int n)
{
	Guard g;

	if (n == 0)
		throw std::runtime_error("no");
	thrower(n - 1);
	KEEP_FRAME();
}

/* Its frame has a personality and an area of landing pads. */
FRAME int Worker::run(int depth)
{
	Guard g;
	std::string s = name + "x";

	if (depth > 0)
		return run(depth - 1) + (int)s.size();
	try {
		thrower(3);
	} catch (const std::exception &e) {
		s += e.what();
	}
	stack_alloc();
	return (int)s.size();
}

template <typename T> FRAME static int in_template(T value)
{
	Worker w(3);
	int r = w.run(2) + (int)value;

	KEEP_FRAME();
	return r;
}

static FRAME void in_handler(void)
{
	try {
		thrower(2);
	} catch (const std::runtime_error &) {
		stack_alloc();
		KEEP_FRAME();
	}
	KEEP_FRAME();
}

/* A destructor that runs while an exception is on its way: between it and the thrower are the unwinder's own frames. */
struct Allocates {
	FRAME ~Allocates()
	{
		stack_alloc();
		KEEP_FRAME();
	}
};

static FRAME void while_unwinding(void)
{
	Allocates a;

	thrower(1);
	KEEP_FRAME();
}

static FRAME void catches(void)
{
	try {
		while_unwinding();
	} catch (const std::exception &) {
	}
	KEEP_FRAME();
}

static FRAME void call_function(const std::function<void(int)> &f)
{
	f(1);
	KEEP_FRAME();
}

} // namespace app

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	stack_key = strtoull(argv[1], nullptr, 10);
	stack_open();
	app::in_template<long>(1);
	app::in_handler();
	app::catches();
	app::call_function([](int) {
		stack_alloc();
		KEEP_FRAME();
	});
	stack_say("done");
	stack_wait();
	return 0;
}
