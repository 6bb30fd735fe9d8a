// What a capture takes of its streams and events: they are joined or not, and go before it ends; and which calls leave it alone.
#include <atomic>
#include <thread>
#include <type_traits>

#include "objects.h"
#include "row.h"

namespace refusals {
namespace {

constexpr CUresult kUnsupported = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
constexpr CUresult kInvalidated = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
constexpr CUresult kUnjoined = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;
constexpr CUresult kOk = CUDA_SUCCESS;

void Work(CUstream stream) {
  CHECK_DRIVER(cuLaunchHostFunc(
      stream, [](void*) {}, nullptr));
}

// A capture that a second stream has joined, where it was given work.
struct Fork {
  explicit Fork(CUstreamCaptureMode mode) : origin(mode) {
    CHECK_DRIVER(cuEventRecord(fork.it, origin));
    CHECK_DRIVER(cuStreamWaitEvent(joined.it, fork.it, 0));
    Work(joined);
  }
  void Join() {
    CHECK_DRIVER(cuEventRecord(join.it, joined));
    CHECK_DRIVER(cuStreamWaitEvent(origin, join.it, 0));
  }
  // Each may be destroyed before the capture ends.
  template <typename Thing>
  static auto Destroy(Thing& thing) {
    const auto gone = thing.it;
    thing.it = nullptr;
    if constexpr (std::is_same_v<Thing, Stream>) {
      return cuStreamDestroy(gone);
    } else {
      return cuEventDestroy(gone);
    }
  }
  // Declared before the streams of the capture, so that they outlive it.
  Event fork, join;
  Stream joined;
  Capture origin;
};

// What the end of a capture says after `between`, which may do what it likes with it.
template <typename Between>
CUresult EndAfter(CUstreamCaptureMode mode, Between between) {
  Capture c(mode);
  between(c.stream.it);
  return End(c);
}

template <typename Between>
CUresult EndJoinedAfter(CUstreamCaptureMode mode, Between between) {
  Fork f(mode);
  f.Join();
  between(f);
  return End(f.origin);
}

// A row for each mode: `ask` sees it as `mode`.
#define IN_EACH_MODE(name, where, global, thread_local_, relaxed, ...) \
  {name ", mode global", where, global,                                \
   [] {                                                                \
     constexpr auto mode = CU_STREAM_CAPTURE_MODE_GLOBAL;              \
     __VA_ARGS__                                                       \
   }},                                                                 \
      {name ", mode thread-local", where, thread_local_,               \
       [] {                                                            \
         constexpr auto mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;    \
         __VA_ARGS__                                                   \
       }},                                                             \
  {                                                                    \
    name ", mode relaxed", where, relaxed, [] {                        \
      constexpr auto mode = CU_STREAM_CAPTURE_MODE_RELAXED;            \
      __VA_ARGS__                                                      \
    }                                                                  \
  }

const Row kRows[] = {
    // What takes part in a capture is joined, is not joined, is destroyed.
    IN_EACH_MODE("cuStreamEndCapture: the joined stream was destroyed", "server", kOk, kOk, kOk,
                 return EndJoinedAfter(mode, [](Fork& f) { CHECK_DRIVER(Fork::Destroy(f.joined)); });),
    IN_EACH_MODE("cuStreamEndCapture: the joined stream and both events were destroyed", "server", kOk, kOk, kOk,
                 return EndJoinedAfter(mode, [](Fork& f) {
                   CHECK_DRIVER(Fork::Destroy(f.joined));
                   CHECK_DRIVER(Fork::Destroy(f.fork));
                   CHECK_DRIVER(Fork::Destroy(f.join));
                 });),
    IN_EACH_MODE("cuStreamEndCapture: the events were destroyed", "server", kOk, kOk, kOk,
                 return EndJoinedAfter(mode, [](Fork& f) {
                   CHECK_DRIVER(Fork::Destroy(f.fork));
                   CHECK_DRIVER(Fork::Destroy(f.join));
                 });),
    IN_EACH_MODE("cuStreamDestroy: a stream that joined and is not joined", "calls/stream.cc", kOk, kOk, kOk,
                 Fork f(mode);
                 return Fork::Destroy(f.joined);),
    IN_EACH_MODE("cuStreamEndCapture: a stream that was not joined was destroyed", "server", kUnjoined, kUnjoined, kUnjoined,
                 Fork f(mode);
                 CHECK_DRIVER(Fork::Destroy(f.joined));
                 return End(f.origin);),
    IN_EACH_MODE("cuStreamEndCapture: not joined, the event of the fork was destroyed", "server", kUnjoined, kUnjoined, kUnjoined,
                 Fork f(mode);
                 CHECK_DRIVER(Fork::Destroy(f.fork));
                 return End(f.origin);),
    IN_EACH_MODE("cuStreamEndCapture: recorded for a join, and the event was destroyed before the wait", "server", kUnjoined, kUnjoined, kUnjoined,
                 Fork f(mode);
                 CHECK_DRIVER(cuEventRecord(f.join.it, f.joined));
                 CHECK_DRIVER(Fork::Destroy(f.join));
                 return End(f.origin);),
    IN_EACH_MODE("cuStreamDestroy: the stream on which the capture began", "calls/stream.cc", kOk, kOk, kOk,
                 Fork f(mode);
                 return Fork::Destroy(f.origin.stream);),
    IN_EACH_MODE("cuStreamIsCapturing: joined, the stream on which the capture began was destroyed", "streams/capture.cc", kOk, kOk, kOk,
                 Fork f(mode);
                 CHECK_DRIVER(Fork::Destroy(f.origin.stream));
                 CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
                 CHECK_DRIVER(cuStreamIsCapturing(f.joined, &status));
                 return static_cast<CUresult>(status);),
    IN_EACH_MODE("cuStreamSynchronize: joined, the stream on which the capture began was destroyed", "streams/capture.cc", kOk, kOk, kOk,
                 Fork f(mode);
                 CHECK_DRIVER(Fork::Destroy(f.origin.stream));
                 return cuStreamSynchronize(f.joined);),
    IN_EACH_MODE("cuEventQuery: recorded in a capture whose stream was destroyed", "streams/capture.cc", kInvalid, kInvalid, kInvalid,
                 Fork f(mode);
                 CHECK_DRIVER(Fork::Destroy(f.origin.stream));
                 return cuEventQuery(f.fork);),
    IN_EACH_MODE("cuStreamEndCapture: a stream that joined, once it is joined", "streams/capture.cc", CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                 Fork f(mode);
                 f.Join();
                 return End(f.joined);),
    IN_EACH_MODE("cuStreamQuery: a stream that is joined", "streams/capture.cc", kUnsupported, kUnsupported, kUnsupported,
                 Fork f(mode);
                 f.Join();
                 return cuStreamQuery(f.joined);),
    IN_EACH_MODE("cuStreamEndCapture: a stream that is joined was queried", "streams/capture.cc", kInvalidated, kInvalidated, kInvalidated,
                 return EndJoinedAfter(mode, [](Fork& f) { cuStreamQuery(f.joined); });),
    IN_EACH_MODE("cuStreamDestroy: joined, the capture is invalid", "calls/stream.cc", kOk, kOk, kOk,
                 Fork f(mode);
                 f.Join();
                 cuStreamQuery(f.joined);
                 return Fork::Destroy(f.joined);),
    IN_EACH_MODE("cuStreamBeginCapture: a stream that is joined", "streams/capture.cc", CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_ILLEGAL_STATE,
                 Fork f(mode);
                 f.Join();
                 return cuStreamBeginCapture(f.joined, mode);),
    IN_EACH_MODE("cuEventRecord: the event of the fork, outside", "streams/capture.cc", kOk, kOk, kOk,
                 Stream other;
                 return EndJoinedAfter(mode, [&](Fork& f) { CHECK_DRIVER(cuEventRecord(f.fork.it, other)); });),
    IN_EACH_MODE("cuEventRecord: an event that was recorded outside, in the capture", "streams/capture.cc", kOk, kOk, kOk,
                 Event e;
                 Stream other;
                 CHECK_DRIVER(cuEventRecord(e.it, other));
                 return EndAfter(mode, [&](CUstream s) { CHECK_DRIVER(cuEventRecord(e.it, s)); });),
    IN_EACH_MODE("cuEventQuery: recorded outside again, while captured", "streams/capture.cc", kUnsupported, kUnsupported, kOk,
                 Stream other;
                 Fork f(mode);
                 f.Join();
                 CHECK_DRIVER(cuEventRecord(f.fork.it, other));
                 CUresult result;
                 while ((result = cuEventQuery(f.fork)) == CUDA_ERROR_NOT_READY) {
                 }
                 return result;),
    IN_EACH_MODE("cuStreamWaitEvent: another stream, event of a fork that is joined", "streams/capture.cc", kUnjoined, kUnjoined, kUnjoined,
                 Stream other;
                 return EndJoinedAfter(mode, [&](Fork& f) {
                   CHECK_DRIVER(cuStreamWaitEvent(other.it, f.fork.it, 0));
                   Work(other);
                 });),
    IN_EACH_MODE("cuStreamWaitEvent: another stream, event of a fork, no work", "server", kOk, kOk, kOk,
                 Stream other;
                 return EndJoinedAfter(mode, [&](Fork& f) { CHECK_DRIVER(cuStreamWaitEvent(other.it, f.fork.it, 0)); });),
    IN_EACH_MODE("cuMemFreeAsync: memory of the capture, stream that joined", "calls/pool.cc", kOk, kOk, kOk,
                 Fork f(mode);
                 CUdeviceptr p = 0;
                 CHECK_DRIVER(cuMemAllocAsync(&p, 64, f.joined));
                 CHECK_DRIVER(cuMemFreeAsync(p, f.joined));
                 f.Join();
                 CHECK_DRIVER(Fork::Destroy(f.joined));
                 return End(f.origin);),
    IN_EACH_MODE("cuMemFreeAsync: pool memory, stream that joined", "calls/pool.cc", kInvalid, kInvalid, kInvalid,
                 Pooled p;
                 Fork f(mode);
                 return cuMemFreeAsync(p, f.joined);),
    IN_EACH_MODE("cuMemPoolDestroy: while captured", "streams/capture_check.cc", kUnsupported, kUnsupported, kOk,
                 CUmemoryPool pool;
                 const CUmemPoolProps props = PinnedPoolProps();
                 CHECK_DRIVER(cuMemPoolCreate(&pool, &props));
                 CUresult result;
                 {
                   Capture c(mode);
                   result = cuMemPoolDestroy(pool);
                 }
                 if (result != CUDA_SUCCESS) cuMemPoolDestroy(pool);
                 return result;),
    IN_EACH_MODE("cuStreamEndCapture: a pool from which it allocated was destroyed", "server", kInvalidated, kInvalidated, kOk,
                 CUmemoryPool pool;
                 const CUmemPoolProps props = PinnedPoolProps();
                 CHECK_DRIVER(cuMemPoolCreate(&pool, &props));
                 bool destroyed = false;
                 const CUresult result = EndAfter(mode, [&](CUstream s) {
                   CUdeviceptr p = 0;
                   CHECK_DRIVER(cuMemAllocFromPoolAsync(&p, 64, pool, s));
                   CHECK_DRIVER(cuMemFreeAsync(p, s));
                   destroyed = cuMemPoolDestroy(pool) == CUDA_SUCCESS;
                 });
                 if (!destroyed) cuMemPoolDestroy(pool);
                 return result;),
    IN_EACH_MODE("cuGraphDestroy: another graph, while captured", "server", kOk, kOk, kOk,
                 CUgraph g;
                 CHECK_DRIVER(cuGraphCreate(&g, 0));
                 return EndAfter(mode, [&](CUstream) { CHECK_DRIVER(cuGraphDestroy(g)); });),
    IN_EACH_MODE("cuGraphInstantiate: while captured", "streams/capture_check.cc", kUnsupported, kUnsupported, kOk,
                 Graph g;
                 g.Empty();
                 Capture c(mode);
                 CUgraphExec e = nullptr;
                 const CUresult result = cuGraphInstantiate(&e, g, 0);
                 End(c);
                 if (e != nullptr) cuGraphExecDestroy(e);
                 return result;),
    IN_EACH_MODE("cuGraphExecDestroy: while captured", "streams/capture_check.cc", kUnsupported, kUnsupported, kOk,
                 Graph g;
                 g.Empty();
                 Exec e(g);
                 CUresult result;
                 {
                   Capture c(mode);
                   result = cuGraphExecDestroy(e);
                 }
                 if (result == CUDA_SUCCESS) e.it = nullptr;
                 return result;),
    IN_EACH_MODE("cuGraphLaunch: another stream, while captured", "server", kOk, kOk, kOk,
                 Graph g;
                 g.Empty();
                 Exec e(g);
                 Stream other;
                 const CUresult result = EndAfter(mode, [&](CUstream) { CHECK_DRIVER(cuGraphLaunch(e, other)); });
                 CHECK_DRIVER(cuStreamSynchronize(other));
                 return result;),
    IN_EACH_MODE("cuGraphLaunch: a stream that is joined", "calls/graph.cc", kUnsupported, kUnsupported, kUnsupported,
                 Graph g;
                 g.Empty();
                 Exec e(g);
                 Fork f(mode);
                 f.Join();
                 return cuGraphLaunch(e, f.joined);),
    IN_EACH_MODE("cuStreamDestroy: a stream that takes no part", "calls/stream.cc", kOk, kOk, kOk,
                 return EndAfter(mode, [](CUstream) {
                   CUstream other;
                   CHECK_DRIVER(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
                   Work(other);
                   CHECK_DRIVER(cuStreamDestroy(other));
                 });),
    IN_EACH_MODE("cuEventDestroy: an event that takes no part", "calls/event.cc", kOk, kOk, kOk,
                 Stream other;
                 return EndAfter(mode, [&](CUstream) {
                   CUevent e;
                   CHECK_DRIVER(cuEventCreate(&e, 0));
                   CHECK_DRIVER(cuEventRecord(e, other));
                   CHECK_DRIVER(cuEventDestroy(e));
                 });),
    IN_EACH_MODE("cuStreamEndCapture: a thread ended whose default stream was joined", "server", kOk, kOk, kOk,
                 return EndAfter(mode, [](CUstream s) {
                   const CUcontext mine = Current();
                   std::thread([&] {
                     CHECK_DRIVER(cuCtxSetCurrent(mine));
                     Event fork, join;
                     CHECK_DRIVER(cuEventRecord(fork.it, s));
                     CHECK_DRIVER(cuStreamWaitEvent(CU_STREAM_PER_THREAD, fork.it, 0));
                     Work(CU_STREAM_PER_THREAD);
                     CHECK_DRIVER(cuEventRecord(join.it, CU_STREAM_PER_THREAD));
                     CHECK_DRIVER(cuStreamWaitEvent(s, join.it, 0));
                   }).join();
                 });),

    // What a capture of mode relaxed allows leaves it alone, whatever the server asks its driver for it.
    {"cuStreamEndCapture: after cuMemAlloc and cuMemFree, mode relaxed", "server", kOk,
     [] {
       return EndAfter(CU_STREAM_CAPTURE_MODE_RELAXED, [&](CUstream) {
         CUdeviceptr p;
         CHECK_DRIVER(cuMemAlloc(&p, 1 << 20));
         CHECK_DRIVER(cuMemFree(p));
       });
     }},
    {"cuStreamEndCapture: after cuMemHostAlloc and cuMemFreeHost, mode relaxed", "server", kOk,
     [] {
       return EndAfter(CU_STREAM_CAPTURE_MODE_RELAXED, [&](CUstream) {
         void* p;
         CHECK_DRIVER(cuMemHostAlloc(&p, 4096, 0));
         CHECK_DRIVER(cuMemFreeHost(p));
       });
     }},
    {"cuStreamEndCapture: after cuMemHostRegister and cuMemHostUnregister, mode relaxed", "server", kOk,
     [] {
       Pages p;
       return EndAfter(CU_STREAM_CAPTURE_MODE_RELAXED, [&](CUstream) {
         CHECK_DRIVER(cuMemHostRegister(p, 4096, 0));
         CHECK_DRIVER(cuMemHostUnregister(p));
       });
     }},
    {"cuStreamEndCapture: after cuModuleLoadData and cuModuleUnload, mode relaxed", "server", kOk,
     [] {
       return EndAfter(CU_STREAM_CAPTURE_MODE_RELAXED, [&](CUstream) {
         Module m;
         (void)m["Nothing"];
       });
     }},
    {"cuStreamEndCapture: after cuLibraryLoadData and cuLibraryUnload, mode relaxed", "server", kOk,
     [] {
       return EndAfter(CU_STREAM_CAPTURE_MODE_RELAXED, [&](CUstream) {
         Library l;
       });
     }},
    {"cuStreamEndCapture: after cuMemAllocAsync and cuMemFreeAsync of another stream, mode relaxed", "server", kOk,
     [] {
       Stream other;
       return EndAfter(CU_STREAM_CAPTURE_MODE_RELAXED, [&](CUstream) {
         CUdeviceptr p;
         CHECK_DRIVER(cuMemAllocAsync(&p, 64, other));
         CHECK_DRIVER(cuMemFreeAsync(p, other));
         CHECK_DRIVER(cuStreamSynchronize(other));
       });
     }},
    {"cuStreamEndCapture: after cuMemPoolTrimTo, mode relaxed", "server", kOk,
     [] {
       return EndAfter(CU_STREAM_CAPTURE_MODE_RELAXED, [&](CUstream) {
         CHECK_DRIVER(cuMemPoolTrimTo(DefaultPool(), 0));
       });
     }},
    {"cuStreamEndCapture: after cuArrayCreate and cuArrayDestroy, mode relaxed", "server", kOk,
     [] {
       return EndAfter(CU_STREAM_CAPTURE_MODE_RELAXED, [&](CUstream) {
         CUarray a;
         CHECK_DRIVER(cuArrayCreate(&a, &kFlat));
         CHECK_DRIVER(cuArrayDestroy(a));
       });
     }},
    {"cuStreamEndCapture: after cuStreamSynchronize of another stream, mode relaxed", "server", kOk,
     [] {
       Stream other;
       return EndAfter(CU_STREAM_CAPTURE_MODE_RELAXED, [&](CUstream) {
         Work(other);
         CHECK_DRIVER(cuStreamSynchronize(other));
       });
     }},
    {"cuStreamEndCapture: after cuStreamSynchronize of the legacy stream, mode relaxed", "server", kOk,
     [] {
       return EndAfter(CU_STREAM_CAPTURE_MODE_RELAXED, [&](CUstream) {
         CHECK_DRIVER(cuStreamSynchronize(nullptr));
       });
     }},
    {"cuStreamEndCapture: after cuEventSynchronize, mode relaxed", "server", kOk,
     [] {
       Stream other;
       Event e;
       return EndAfter(CU_STREAM_CAPTURE_MODE_RELAXED, [&](CUstream) {
         CHECK_DRIVER(cuEventRecord(e.it, other));
         CHECK_DRIVER(cuEventSynchronize(e.it));
       });
     }},
    {"cuStreamEndCapture: after copies of another stream and of none, mode relaxed", "server", kOk,
     [] {
       Stream other;
       Block b;
       char bytes[64] = {};
       return EndAfter(CU_STREAM_CAPTURE_MODE_RELAXED, [&](CUstream) {
         CHECK_DRIVER(cuMemcpyHtoDAsync(b, bytes, 64, other));
         CHECK_DRIVER(cuMemcpyDtoHAsync(bytes, b, 64, other));
         CHECK_DRIVER(cuStreamSynchronize(other));
         CHECK_DRIVER(cuMemcpyDtoH(bytes, b, 64));
       });
     }},
    {"cuStreamEndCapture: after cuCtxCreate and cuCtxDestroy, mode relaxed", "server", kOk,
     [] {
       return EndAfter(CU_STREAM_CAPTURE_MODE_RELAXED, [&](CUstream) {
         OtherContext other;
         (void)other.In([] { return cuCtxSynchronize(); });
       });
     }},
    {"cuStreamEndCapture: after cuMemMap and cuMemUnmap, mode relaxed", "server", kOk,
     [] {
       return EndAfter(CU_STREAM_CAPTURE_MODE_RELAXED, [&](CUstream) {
         Mapped m;
       });
     }},
    {"cuStreamEndCapture: after cuCtxSetLimit, mode relaxed", "server", kOk,
     [] {
       return EndAfter(CU_STREAM_CAPTURE_MODE_RELAXED, [&](CUstream) {
         CHECK_DRIVER(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
       });
     }},
    {"cuStreamEndCapture: after the legacy stream was asked while it works, mode relaxed", "server", kOk,
     [] {
       static std::atomic<bool> go;
       go = false;
       CHECK_DRIVER(cuLaunchHostFunc(
           nullptr,
           [](void*) {
             while (!go) std::this_thread::yield();
           },
           nullptr));
       return EndAfter(CU_STREAM_CAPTURE_MODE_RELAXED, [&](CUstream) {
         for (int i = 0; i < 4; ++i) {
           if (cuStreamQuery(nullptr) != CUDA_ERROR_NOT_READY) std::exit(1);
         }
         go = true;
         CHECK_DRIVER(cuStreamSynchronize(nullptr));
       });
     }},
};

}  // namespace

std::span<const Row> CaptureEndRows() { return kRows; }

}  // namespace refusals
