// Streams, events and host functions: handles that do not belong together, and questions at the wrong time.
#include "objects.h"
#include "row.h"

namespace refusals {
namespace {

constexpr CUresult kHandle = CUDA_ERROR_INVALID_HANDLE;
constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;

CUresult in_host_function;

// What `ask` gets inside a host function.
template <typename Ask>
CUresult InHostFunction(Ask) {
  Stream s;
  CHECK_DRIVER(cuLaunchHostFunc(
      s, [](void*) { in_host_function = Ask()(); }, nullptr));
  CHECK_DRIVER(cuStreamSynchronize(s));
  return in_host_function;
}

template <typename Ask>
CUresult InCallback(Ask) {
  Stream s;
  CHECK_DRIVER(cuStreamAddCallback(
      s, [](CUstream, CUresult, void*) { in_host_function = Ask()(); }, nullptr, 0));
  CHECK_DRIVER(cuStreamSynchronize(s));
  return in_host_function;
}

CUresult Elapsed(CUevent from, CUevent to) {
  float milliseconds;
  return cuEventElapsedTime(&milliseconds, from, to);
}

CUstreamBatchMemOpParams Write(CUdeviceptr address) {
  CUstreamBatchMemOpParams operation{};
  operation.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, address, {1}, 0, 0};
  return operation;
}

template <typename Handle>
CUstream AsStream(Handle handle) {
  return reinterpret_cast<CUstream>(handle);
}

const Row kRows[] = {
    {"cuEventRecord: event of another context", "calls/event.cc", kHandle,
     [] { return cuEventRecord(EventOf(OtherContext()), Stream()); }},
    {"cuEventRecord: event and stream of a context that is not current", "calls/event.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       return cuEventRecord(EventOf(other), StreamOf(other));
     }},
    {"cuEventRecord: the default stream, event of another context", "calls/event.cc", kHandle,
     [] { return cuEventRecord(EventOf(OtherContext()), nullptr); }},
    {"cuEventRecordWithFlags: external outside of a capture", "streams/capture.cc", CUDA_ERROR_ILLEGAL_STATE,
     [] { return cuEventRecordWithFlags(Event(), Stream(), CU_EVENT_RECORD_EXTERNAL); }},
    {"cuEventRecordWithFlags: external outside of a capture, another one goes on", "streams/capture.cc", CUDA_ERROR_ILLEGAL_STATE,
     [] {
       Capture c;
       return cuEventRecordWithFlags(Event(), Stream(), CU_EVENT_RECORD_EXTERNAL);
     }},
    {"cuEventRecordWithFlags: unknown flags", "calls/event.cc", kInvalid,
     [] { return cuEventRecordWithFlags(Event(), Stream(), 4); }},
    {"cuEventRecord: a stream in place of an event", "call/call.cc", kHandle,
     [] {
       Stream s;
       return cuEventRecord(reinterpret_cast<CUevent>(s.it), s);
     },
     kDangerous},
    {"cuEventRecord: destroyed event", "call/call.cc", kHandle, [] { return cuEventRecord(Gone<Event>(), Stream()); },
     kDangerous},
    {"cuEventRecord: destroyed stream", "call/call.cc", kHandle, [] { return cuEventRecord(Event(), Gone<Stream>()); },
     kDangerous},
    {"cuEventRecord: unknown event", "call/call.cc", kHandle, [] { return cuEventRecord(Unknown<CUevent>(), Stream()); },
     kDangerous},
    {"cuEventRecord: event of a destroyed context", "call/call.cc", kHandle,
     [] {
       CUevent e;
       {
         OtherContext other;
         e = EventOf(other);
       }
       Stream s;
       return cuEventRecord(e, s);
     },
     kDangerous},
    {"cuEventCreate: for other processes, with times", "calls/event.cc", kInvalid,
     [] { return cuEventCreate(Out<CUevent>(), CU_EVENT_INTERPROCESS); }},
    {"cuEventCreate: unknown flags", "calls/event.cc", kInvalid, [] { return cuEventCreate(Out<CUevent>(), 16); }},
    {"cuEventElapsedTime: event that was not recorded", "server", kHandle,
     [] {
       Event a, b;
       CHECK_DRIVER(cuEventRecord(b, nullptr));
       return Elapsed(a, b);
     }},
    {"cuEventElapsedTime: event without times", "server", kHandle,
     [] {
       Event a, b(CU_EVENT_DISABLE_TIMING);
       CHECK_DRIVER(cuEventRecord(a, nullptr));
       CHECK_DRIVER(cuEventRecord(b, nullptr));
       CHECK_DRIVER(cuEventSynchronize(b));
       return Elapsed(a, b);
     }},
    {"cuEventElapsedTime: events of two contexts", "server", kHandle,
     [] {
       OtherContext other;
       Event a;
       CHECK_DRIVER(cuEventRecord(a, nullptr));
       CUevent b = EventOf(other);
       other.In([&] {
         CHECK_DRIVER(cuEventRecord(b, nullptr));
         CHECK_DRIVER(cuEventSynchronize(b));
         return 0;
       });
       CHECK_DRIVER(cuEventSynchronize(a));
       return Elapsed(a, b);
     },
     kNeedsGpu},
    {"cuEventElapsedTime: no place for the answer", "calls/event.cc", kHandle,
     [] {
       Event a;
       CHECK_DRIVER(cuEventRecord(a, nullptr));
       CHECK_DRIVER(cuEventSynchronize(a));
       return cuEventElapsedTime(nullptr, a, a);
     }},
    {"cuEventQuery: event that was not recorded", "calls/event.cc", CUDA_SUCCESS, [] { return cuEventQuery(Event()); }},
    {"cuEventDestroy: a second time", "call/call.cc", kHandle, [] { return cuEventDestroy(Gone<Event>()); }, kDangerous},
    {"cuEventSynchronize: null", "call/call.cc", kHandle, [] { return cuEventSynchronize(nullptr); }},
    {"cuStreamWaitEvent: event of another context", "calls/stream.cc", CUDA_SUCCESS,
     [] { return cuStreamWaitEvent(Stream(), EventOf(OtherContext()), 0); }},
    {"cuStreamWaitEvent: external outside of a capture", "streams/capture.cc", CUDA_ERROR_ILLEGAL_STATE,
     [] { return cuStreamWaitEvent(Stream(), Event(), CU_EVENT_WAIT_EXTERNAL); }},
    {"cuStreamWaitEvent: unknown flags", "calls/stream.cc", kInvalid, [] { return cuStreamWaitEvent(Stream(), Event(), 8); }},
    {"cuStreamDestroy: null", "calls/stream.cc", kHandle, [] { return cuStreamDestroy(nullptr); }},
    {"cuStreamDestroy: the legacy stream", "calls/stream.cc", kHandle, [] { return cuStreamDestroy(CU_STREAM_LEGACY); }},
    {"cuStreamDestroy: the stream of the thread", "calls/stream.cc", kHandle,
     [] { return cuStreamDestroy(CU_STREAM_PER_THREAD); }},
    {"cuStreamDestroy: a second time", "call/call.cc", kHandle, [] { return cuStreamDestroy(Gone<Stream>()); }, kDangerous},
    {"cuStreamSynchronize: destroyed stream", "call/call.cc", kHandle, [] { return cuStreamSynchronize(Gone<Stream>()); },
     kDangerous},
    {"cuStreamSynchronize: an event in place of a stream", "call/call.cc", kHandle,
     [] { return cuStreamSynchronize(AsStream(Event().it)); }, kDangerous},
    {"cuStreamSynchronize: stream of another context", "calls/stream.cc", CUDA_SUCCESS,
     [] { return cuStreamSynchronize(StreamOf(OtherContext())); }},
    {"cuStreamSynchronize: stream of a destroyed context", "call/call.cc", kHandle,
     [] {
       CUstream s;
       {
         OtherContext other;
         s = StreamOf(other);
       }
       return cuStreamSynchronize(s);
     },
     kDangerous},
    {"cuStreamCreate: unknown flags", "calls/stream.cc", kInvalid, [] { return cuStreamCreate(Out<CUstream>(), 2); }},
    {"cuStreamQuery: unknown stream", "call/call.cc", kHandle, [] { return cuStreamQuery(Unknown<CUstream>()); }, kDangerous},
    {"cuStreamAddCallback: flags", "calls/stream.cc", kInvalid,
     [] {
       Stream s;
       return cuStreamAddCallback(
           s, [](CUstream, CUresult, void*) {}, nullptr, 1);
     }},
    {"cuStreamGetDevice: the default stream without a context", "streams/stream_state.cc", CUDA_ERROR_INVALID_CONTEXT,
     [] { return With(nullptr, [] { return cuStreamGetDevice(nullptr, Out<CUdevice>()); }); }},
    {"cuMemAlloc: in a host function", "call/call.cc", CUDA_ERROR_NOT_PERMITTED,
     [] {
       return InHostFunction([] {
         CUdeviceptr p;
         return cuMemAlloc(&p, 64);
       });
     }},
    {"cuMemAlloc: in a callback", "call/call.cc", CUDA_ERROR_NOT_PERMITTED,
     [] {
       return InCallback([] {
         CUdeviceptr p;
         return cuMemAlloc(&p, 64);
       });
     }},
    {"cuStreamSynchronize: in a host function", "call/call.cc", CUDA_ERROR_NOT_PERMITTED,
     [] { return InHostFunction([] { return cuStreamSynchronize(nullptr); }); }},
    {"cuCtxSynchronize: in a host function", "call/call.cc", CUDA_ERROR_NOT_PERMITTED,
     [] { return InHostFunction([] { return cuCtxSynchronize(); }); }},
    {"cuMemsetD8Async: in a host function", "call/call.cc", CUDA_ERROR_NOT_PERMITTED,
     [] { return InHostFunction([] { return cuMemsetD8Async(kNowhere, 0, 1, nullptr); }); }},
    {"cuCtxGetCurrent: in a host function", "call/call.cc", CUDA_ERROR_NOT_PERMITTED,
     [] {
       return InHostFunction([] {
         CUcontext c;
         return cuCtxGetCurrent(&c);
       });
     }},
    {"cuStreamWriteValue32: ordinary memory", "memory/memory_operations.cc", kInvalid,
     [] { return cuStreamWriteValue32(Stream(), Pages().address(), 1, 0); }, kNeedsGpu},
    {"cuStreamWriteValue32: nowhere", "memory/memory_operations.cc", kInvalid,
     [] { return cuStreamWriteValue32(Stream(), kNowhere, 1, 0); }, kNeedsGpu},
    {"cuStreamWriteValue32: freed memory", "memory/memory_operations.cc", kInvalid,
     [] { return cuStreamWriteValue32(Stream(), Gone<Block>(), 1, 0); }, kNeedsGpu},
    {"cuStreamWriteValue32: beyond the end of a block", "memory/memory_operations.cc", kInvalid,
     [] { return cuStreamWriteValue32(Stream(), Block(64) + 64, 1, 0); }, kNeedsGpu},
    {"cuStreamWriteValue32: managed memory", "memory/memory_operations.cc", kInvalid,
     [] { return cuStreamWriteValue32(Stream(), Managed(), 1, 0); }},
    {"cuStreamWriteValue32: pinned memory", "memory/memory_operations.cc", CUDA_SUCCESS,
     [] {
       Pinned p;
       Stream s;
       const CUresult result = cuStreamWriteValue32(s, p.address(), 1, 0);
       cuStreamSynchronize(s);
       return result;
     }},
    {"cuStreamWriteValue32: registered memory", "memory/memory_operations.cc", CUDA_SUCCESS,
     [] {
       Registered r;
       Stream s;
       const CUresult result = cuStreamWriteValue32(s, r.address(), 1, 0);
       cuStreamSynchronize(s);
       return result;
     }},
    {"cuStreamWaitValue32: ordinary memory", "memory/memory_operations.cc", kInvalid,
     [] { return cuStreamWaitValue32(Stream(), Pages().address(), 1, 0); }, kNeedsGpu},
    {"cuStreamWaitValue32: pinned memory", "memory/memory_operations.cc", CUDA_SUCCESS,
     [] {
       Pinned p;
       *static_cast<int*>(p.it) = 1;
       Stream s;
       const CUresult result = cuStreamWaitValue32(s, p.address(), 1, 0);
       cuStreamSynchronize(s);
       return result;
     },
     kOnLinks, CUDA_ERROR_NOT_SUPPORTED, "client-stub/README.md"},
    {"cuStreamSynchronize: a stream, in a host function", "streams/host_functions.cc", CUDA_SUCCESS,
     [] {
       static CUstream other;
       Stream s;
       other = s;
       return InHostFunction([] { return cuStreamSynchronize(other); });
     }},
    {"cuStreamQuery: a stream, in a host function", "streams/host_functions.cc", CUDA_SUCCESS,
     [] {
       static CUstream other;
       Stream s;
       other = s;
       return InHostFunction([] { return cuStreamQuery(other); });
     }},
    {"cuEventQuery: in a host function", "streams/host_functions.cc", CUDA_SUCCESS,
     [] {
       static CUevent asked;
       Event e;
       asked = e;
       return InHostFunction([] { return cuEventQuery(asked); });
     }},
    {"cuStreamGetDevice: the default stream, in a host function", "streams/stream_state.cc", CUDA_ERROR_NOT_PERMITTED,
     [] { return InHostFunction([] { return cuStreamGetDevice(nullptr, Out<CUdevice>()); }); }},

    // Streams of another context do what streams of the current one do.
    {"cuMemsetD8Async: stream of another context", "calls/set.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       return cuMemsetD8Async(Block(), 0, 16, StreamOf(other));
     }},
    {"cuMemcpyDtoDAsync: stream of another context", "copies/copy_bytes.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       Block b;
       return cuMemcpyDtoDAsync(b, b + 64, 16, StreamOf(other));
     }},
    {"cuMemcpyHtoDAsync: stream of another context", "copies/copy_bytes.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       char host[16];
       return cuMemcpyHtoDAsync(Block(), host, 16, StreamOf(other));
     }},
    {"cuMemcpyDtoHAsync: stream of another context", "copies/copy_bytes.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       char host[16];
       return cuMemcpyDtoHAsync(host, Block(), 16, StreamOf(other));
     }},
    {"cuMemcpyDtoHAsync: pinned memory, stream of another context", "copies/copy_bytes.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       return cuMemcpyDtoHAsync(Pinned(), Block(), 16, StreamOf(other));
     }},
    {"cuLaunchHostFunc: stream of another context", "calls/stream.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       return cuLaunchHostFunc(
           StreamOf(other), [](void*) {}, nullptr);
     }},
    {"cuStreamAddCallback: stream of another context", "calls/stream.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       return cuStreamAddCallback(
           StreamOf(other), [](CUstream, CUresult, void*) {}, nullptr, 0);
     }},
    {"cuMemAllocAsync: stream of another context", "calls/pool.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       CUdeviceptr p = 0;
       const CUresult result = cuMemAllocAsync(&p, 64, StreamOf(other));
       if (p != 0) cuMemFree(p);
       return result;
     }},
    {"cuMemFreeAsync: stream of another context", "calls/pool.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       CUdeviceptr p;
       CHECK_DRIVER(cuMemAllocAsync(&p, 64, nullptr));
       return cuMemFreeAsync(p, StreamOf(other));
     }},
    {"cuStreamWriteValue32: stream of another context", "memory/memory_operations.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       return cuStreamWriteValue32(StreamOf(other), Block(), 1, 0);
     }},
    {"cuMemPrefetchAsync: stream of another context", "calls/managed.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       return cuMemPrefetchAsync(Managed(), 4096, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, 0, StreamOf(other));
     }},
    {"cuStreamAttachMemAsync: stream of another context", "calls/managed.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       return cuStreamAttachMemAsync(StreamOf(other), Managed(), 0, CU_MEM_ATTACH_SINGLE);
     }},
    {"cuStreamBeginCapture: stream of another context", "calls/capture.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       const CUstream s = StreamOf(other);
       const CUresult result = cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED);
       cuStreamEndCapture(s, Out<CUgraph>());
       return result;
     }},

    // The memory of stream memory operations.
    {"cuStreamWriteValue32: pool memory", "memory/memory_operations.cc", kInvalid,
     [] { return cuStreamWriteValue32(Stream(), Pooled(), 1, 0); }},
    {"cuStreamWriteValue32: a mapping", "memory/memory_operations.cc", CUDA_SUCCESS,
     [] { return cuStreamWriteValue32(Stream(), Mapped(), 1, 0); }},
    {"cuStreamWriteValue32: a variable", "memory/memory_operations.cc", CUDA_SUCCESS,
     [] {
       Module m;
       return cuStreamWriteValue32(Stream(), m.Variable(), 1, 0);
     }},
    {"cuStreamWriteValue32: reserved addresses", "memory/memory_operations.cc", kInvalid,
     [] { return cuStreamWriteValue32(Stream(), Reserved(), 1, 0); }},
    {"cuStreamWriteValue32: address that is not a multiple of 4", "server", kInvalid,
     [] {
       Block b;
       return cuStreamWriteValue32(Stream(), b + 2, 1, 0);
     }},
    {"cuStreamWriteValue32: last two bytes of a block", "memory/memory_operations.cc", CUDA_SUCCESS,
     [] {
       Block b(66);
       return cuStreamWriteValue32(Stream(), b + 64, 1, 0);
     }},
    {"cuStreamWriteValue64: last four bytes of a block", "memory/memory_operations.cc", CUDA_SUCCESS,
     [] {
       Block b(68);
       return cuStreamWriteValue64(Stream(), b + 64, 1, 0);
     }},
    {"cuStreamWriteValue64: freed memory", "memory/memory_operations.cc", kInvalid,
     [] { return cuStreamWriteValue64(Stream(), Gone<Block>(), 1, 0); }},
    {"cuStreamWriteValue32: beyond the end of pinned memory", "memory/memory_operations.cc", kInvalid,
     [] {
       Pinned p;
       return cuStreamWriteValue32(Stream(), p.address() + 4096, 1, 0);
     }},
    {"cuStreamWaitValue32: freed memory", "memory/memory_operations.cc", kInvalid,
     [] { return cuStreamWaitValue32(Stream(), Gone<Block>(), 0, 0); }},
    {"cuStreamWaitValue32: managed memory", "memory/memory_operations.cc", kInvalid,
     [] { return cuStreamWaitValue32(Stream(), Managed(), 0, 0); }},
    {"cuStreamWaitValue32: registered memory", "memory/memory_operations.cc", CUDA_SUCCESS,
     [] {
       Registered r;
       Stream s;
       const CUresult result = cuStreamWaitValue32(s, r.address(), 1, CU_STREAM_WAIT_VALUE_GEQ);
       *reinterpret_cast<volatile int*>(r.it) = 1;
       cuStreamSynchronize(s);
       return result;
     },
     0, CUDA_ERROR_NOT_SUPPORTED, "client-stub/README.md"},
    {"cuStreamBatchMemOp: writes freed memory", "memory/memory_operations.cc", kInvalid,
     [] {
       auto op = Write(Gone<Block>());
       return cuStreamBatchMemOp(Stream(), 1, &op, 0);
     }},
    {"cuStreamBatchMemOp: writes managed memory", "memory/memory_operations.cc", kInvalid,
     [] {
       Managed m;
       auto op = Write(m);
       return cuStreamBatchMemOp(Stream(), 1, &op, 0);
     }},
    {"cuStreamBatchMemOp: writes ordinary memory", "memory/memory_operations.cc", kInvalid,
     [] {
       Pages p;
       auto op = Write(p.address());
       return cuStreamBatchMemOp(Stream(), 1, &op, 0);
     }},
    {"cuStreamBatchMemOp: unknown operation", "server", kInvalid,
     [] {
       Block b;
       auto op = Write(b);
       op.operation = static_cast<CUstreamBatchMemOpType>(77);
       return cuStreamBatchMemOp(Stream(), 1, &op, 0);
     }},
};

}  // namespace

std::span<const Row> StreamRows() { return kRows; }

}  // namespace refusals
