/* SPDX-License-Identifier: MIT */
/* Multicast objects: no memory of their own. What is bound to one lives until it is unbound, or until the object is gone. */
#include "libcuda_vmm.h"

struct binding {
	uint64_t offset, bytes;
	uint32_t object, memory; /* places */
	int device;
};

static struct binding *bindings;
static size_t binding_len, binding_cap;

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *handle, const CUmulticastObjectProp *prop)
{
	struct physical what = { .kind = PHYSICAL_MULTICAST, .device = -1, .origin = PLACE_NONE };
	CUresult r = driver_ready();
	uint64_t made = 0;

	if (r)
		return fail(r);
	if (!out_is_plausible(handle) || !out_is_plausible(prop) || !prop->numDevices ||
	    prop->numDevices > FAKE_GPU_MAX || !prop->size || prop->size % GRANULARITY || prop->size > 1ull << 48 || prop->flags)
		return fail(CUDA_ERROR_INVALID_VALUE);
	what.bytes = prop->size;
	what.may_share = prop->handleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	vmm_lock();
	if (physical_new(&what, &made))
		*handle = made;
	vmm_unlock();
	if (!made)
		return fail(CUDA_ERROR_OUT_OF_MEMORY);
	block_count_alloc();
	return CUDA_SUCCESS;
}

/* With the lock. */
static struct physical *object_of(uint64_t handle)
{
	struct physical *p = physical_of(handle);

	return p && p->kind == PHYSICAL_MULTICAST ? p : NULL;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice dev)
{
	CUresult r = driver_ready();
	struct physical *mc;

	if (r)
		return r;
	if (!device_is_valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	vmm_lock();
	mc = object_of(handle);
	if (mc)
		mc->devices |= 1ull << dev;
	vmm_unlock();
	return mc ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool is_bound(const struct binding *b, uint32_t object, int device, uint64_t offset, uint64_t bytes)
{
	return b->object == object && b->device == device && b->offset < offset + bytes &&
	       offset < b->offset + b->bytes;
}

/* With the lock. */
static CUresult bind(struct physical *mc, uint64_t offset, struct physical *memory, uint64_t bytes)
{
	struct binding *array;

	if (!mc || !memory || memory->kind == PHYSICAL_MULTICAST || !bytes || bytes % GRANULARITY ||
	    offset % GRANULARITY || offset > mc->bytes || bytes > mc->bytes - offset)
		return CUDA_ERROR_INVALID_VALUE;
	/* An import may be of a device that is not visible here. */
	if (memory->device < 0 ? memory->kind == PHYSICAL_CREATED : !((mc->devices >> memory->device) & 1))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < binding_len; i++)
		if (is_bound(&bindings[i], physical_place(mc), memory->device, offset, bytes))
			return CUDA_ERROR_INVALID_VALUE;
	array = array_grow(bindings, binding_len, sizeof(*array), &binding_cap);
	if (!array)
		return CUDA_ERROR_OUT_OF_MEMORY;
	bindings = array;
	bindings[binding_len++] = (struct binding){
		.offset = offset,
		.bytes = bytes,
		.object = physical_place(mc),
		.memory = physical_place(memory),
		.device = memory->device,
	};
	memory->binds++;
	return CUDA_SUCCESS;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mc, size_t offset, CUmemGenericAllocationHandle memory,
			    size_t memory_offset, size_t bytes, unsigned long long flags)
{
	CUresult r = driver_ready();
	struct physical *p;

	if (r)
		return r;
	vmm_lock();
	p = physical_of(memory);
	if (flags || !p || memory_offset % GRANULARITY || memory_offset > p->bytes || bytes > p->bytes - memory_offset)
		r = CUDA_ERROR_INVALID_VALUE;
	else
		r = bind(object_of(mc), offset, p, bytes);
	vmm_unlock();
	return r;
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle mc, size_t offset, CUdeviceptr ptr, size_t bytes,
			     unsigned long long flags)
{
	CUresult r = driver_ready();

	if (r)
		return r;
	vmm_lock();
	r = flags ? CUDA_ERROR_INVALID_VALUE : bind(object_of(mc), offset, physical_mapped(ptr, bytes), bytes);
	vmm_unlock();
	return r;
}

/* With the lock. */
static void unbind(size_t i)
{
	struct physical *p = physical_at(bindings[i].memory);

	bindings[i] = bindings[--binding_len];
	p->binds--;
	physical_put(p);
}

/* The range has to be made of whole bindings. */
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle mc, CUdevice dev, size_t offset, size_t bytes)
{
	CUresult r = driver_ready();
	struct physical *object;
	uint64_t found = 0;

	if (r)
		return r;
	vmm_lock();
	object = object_of(mc);
	for (size_t i = 0; object && i < binding_len; i++) {
		const struct binding *b = &bindings[i];

		if (!is_bound(b, physical_place(object), dev, offset, bytes))
			continue;
		if (b->offset < offset || b->bytes > bytes || b->offset - offset > bytes - b->bytes)
			found = UINT64_MAX / 2; /* a part of it */
		found += b->bytes;
	}
	if (!object || !bytes || found != bytes)
		r = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = binding_len; !r && i-- > 0;)
		if (is_bound(&bindings[i], physical_place(object), dev, offset, bytes))
			unbind(i);
	vmm_unlock();
	return r;
}

void multicast_ended(uint32_t place)
{
	for (size_t i = binding_len; i-- > 0;)
		if (bindings[i].object == place)
			unbind(i);
}
