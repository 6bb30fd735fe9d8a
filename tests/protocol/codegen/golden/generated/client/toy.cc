// Generated from protocol/spec/toy.toml by protocol/codegen. Do not edit.

#include "generated/client/toy.h"

#include <cstring>

#include "client-stub/call/call.h"
#include "client-stub/device_work/device_work.h"
#include "protocol/runtime/client_support.h"

namespace tessera {

CUresult Enter_cuToyCreate(bool per_thread, CUtoy* toy, unsigned int flags) {
  Call call(kInfo_cuToyCreate, per_thread);
  if (!call.ok()) return call.result();
  if (toy == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuToyCreateRequest request;
  request.toy = call.Mint(HandleKind::kEvent);
  request.flags = flags;
  if (!call.ok()) return call.result();
  const CUresult result = call.Async(request);
  if (result != CUDA_SUCCESS) return result;
  *toy = ToObject<CUtoy>(request.toy);
  return CUDA_SUCCESS;
}

CUresult Enter_cuToyDestroy(bool per_thread, CUtoy toy) {
  Call call(kInfo_cuToyDestroy, per_thread);
  if (SeveralServers()) [[unlikely]] {
    call.RouteToHandle(toy);
  }
  if (!call.ok()) return call.result();
  cuToyDestroyRequest request;
  request.toy = call.Free(HandleKind::kEvent, toy, false, 3);
  if (!call.ok()) return call.result();
  return call.Async(request);
}

CUresult Enter_cuToyDestroyOld(bool per_thread, CUtoy toy) {
  return Enter_cuToyDestroy(per_thread, toy);
}

CUresult Enter_cuToyRename(bool per_thread, CUtoy toy, const char* name, const void* data, size_t size, char* old, int length) {
  Call call(kInfo_cuToyRename, per_thread);
  if (SeveralServers()) [[unlikely]] {
    call.RouteToHandle(toy);
  }
  if (!call.ok()) return call.result();
  if (name == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (data == nullptr && size != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (old == nullptr && length != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  size_t data_size = 0;
  if (!LengthOf(size, &data_size)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  size_t old_size = 0;
  if (!LengthOf(length, &old_size)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuToyRenameRequest request;
  request.toy = call.Use(HandleKind::kEvent, toy);
  request.name = name;
  request.data = {reinterpret_cast<const std::byte*>(data), data_size};
  request.size = size;
  request.length = length;
  if (!call.ok()) return call.result();
  cuToyRenameReply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result != CUDA_SUCCESS) return result;
  StoreText(reply.old, old, old_size);
  return CUDA_SUCCESS;
}

CUresult Enter_cuToyPlay_v2(bool per_thread, const CUtoy* toys, unsigned int number, const CUpoint* points, CUpoint* place, CUtoy* friends, size_t* friend_count, void* userData, CUstream stream) {
  Call call(kInfo_cuToyPlay_v2, per_thread);
  if (SeveralServers()) [[unlikely]] {
    call.RouteToHandle(stream);
  }
  if (!call.ok()) return call.result();
  if (points == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (place == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (friend_count == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  size_t toys_size = 0;
  if (toys != nullptr) { if (!LengthOf(number, &toys_size)) return call.Fail(CUDA_ERROR_INVALID_VALUE); }
  size_t points_size = 0;
  if (!LengthOf(2, &points_size)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  size_t friends_size = 0;
  if (friend_count != nullptr && friends != nullptr) { if (!LengthOf(*friend_count, &friends_size)) return call.Fail(CUDA_ERROR_INVALID_VALUE); }
  cuToyPlay_v2Request request;
  request.has_toys = toys != nullptr;
  if (toys != nullptr) {
    HandleId* ids = request.toys.Allocate(toys_size);
    for (size_t i = 0; i < toys_size; ++i) ids[i] = call.Use(HandleKind::kEvent, toys[i]);
  }
  request.number = number;
  request.points.Borrow(points, points_size);
  request.place = *place;
  request.has_friends = friends != nullptr;
  request.friend_count = *friend_count;
  request.userData = reinterpret_cast<uint64_t>(userData);
  request.stream = call.UseStream(stream);
  if (!call.ok()) return call.result();
  cuToyPlay_v2Reply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result != CUDA_SUCCESS) return result;
  if (reply.friends.size() > friends_size) return call.MalformedReply();
  *place = reply.place;
  for (size_t i = 0; i < reply.friends.size(); ++i) {
    call.Adopt(reply.friends[i]);
    friends[i] = ToObject<CUtoy>(reply.friends[i]);
  }
  *friend_count = reply.friend_count;
  return CUDA_SUCCESS;
}

CUresult Enter_cuToyGetColour(bool per_thread, int* colour, CUtoy toy) {
  Call call(kInfo_cuToyGetColour, per_thread);
  if (SeveralServers()) [[unlikely]] {
    call.RouteToHandle(toy);
  }
  return Custom_cuToyGetColour(call, colour, toy);
}

CUresult Enter_cuToyPaint(bool per_thread, CUtoy toy, void** colours) {
  Call call(kInfo_cuToyPaint, per_thread);
  if (SeveralServers()) [[unlikely]] {
    call.RouteToHandle(toy);
  }
  return Custom_cuToyPaint(call, toy, colours);
}

CUresult Enter_cuToyFly(bool per_thread, CUtoy toy) {
  return Unsupported(kInfo_cuToyFly);
}

CUresult Enter_cuToyName(bool per_thread, const char** name) {
  Call call(kInfo_cuToyName, per_thread);
  return Custom_cuToyName(call, name);
}

CUresult Enter_cuToyThrow(bool per_thread, CUtoy toy, CUstream stream) {
  Call call(kInfo_cuToyThrow, per_thread);
  if (SeveralServers()) [[unlikely]] {
    call.RouteToHandle(toy);
    call.RouteToHandle(stream);
  }
  if (!call.ok()) return call.result();
  cuToyThrowRequest request;
  request.toy = call.Use(HandleKind::kEvent, toy);
  request.stream = call.UseStream(stream);
  if (!call.ok()) return call.result();
  WorkOnAnything work(call);
  return work.Async(request);
}

CUresult Enter_cuToyHurl(bool per_thread, CUtoy toy, CUstream stream) {
  Call call(kInfo_cuToyHurl, per_thread);
  if (SeveralServers()) [[unlikely]] {
    call.RouteToHandle(toy);
    call.RouteToHandle(stream);
  }
  if (!call.ok()) return call.result();
  cuToyHurlRequest request;
  request.toy = call.Use(HandleKind::kEvent, toy);
  request.stream = call.UseStream(stream);
  if (!call.ok()) return call.result();
  return call.Sync(request);
}


}  // namespace tessera

TESSERA_EXPORT CUresult CUDAAPI cuToyCreate(CUtoy* toy, unsigned int flags) { TESSERA_GUARD(Enter_cuToyCreate(false, toy, flags)); }
TESSERA_EXPORT CUresult CUDAAPI cuToyDestroy(CUtoy toy) { TESSERA_GUARD(Enter_cuToyDestroy(false, toy)); }
TESSERA_EXPORT CUresult CUDAAPI cuToyDestroyOld(CUtoy toy) { TESSERA_GUARD(Enter_cuToyDestroyOld(false, toy)); }
TESSERA_EXPORT CUresult CUDAAPI cuToyRename(CUtoy toy, const char* name, const void* data, size_t size, char* old, int length) { TESSERA_GUARD(Enter_cuToyRename(false, toy, name, data, size, old, length)); }
TESSERA_EXPORT CUresult CUDAAPI cuToyPlay_v2(const CUtoy* toys, unsigned int number, const CUpoint* points, CUpoint* place, CUtoy* friends, size_t* friend_count, void* userData, CUstream stream) { TESSERA_GUARD(Enter_cuToyPlay_v2(false, toys, number, points, place, friends, friend_count, userData, stream)); }
TESSERA_EXPORT CUresult CUDAAPI cuToyPlay_v2_ptsz(const CUtoy* toys, unsigned int number, const CUpoint* points, CUpoint* place, CUtoy* friends, size_t* friend_count, void* userData, CUstream stream) { TESSERA_GUARD(Enter_cuToyPlay_v2(true, toys, number, points, place, friends, friend_count, userData, stream)); }
TESSERA_EXPORT CUresult CUDAAPI cuToyGetColour(int* colour, CUtoy toy) { TESSERA_GUARD(Enter_cuToyGetColour(false, colour, toy)); }
TESSERA_EXPORT CUresult CUDAAPI cuToyPaint(CUtoy toy, void** colours) { TESSERA_GUARD(Enter_cuToyPaint(false, toy, colours)); }
TESSERA_EXPORT CUresult CUDAAPI cuToyFly(CUtoy toy) { TESSERA_GUARD(Enter_cuToyFly(false, toy)); }
TESSERA_EXPORT CUresult CUDAAPI cuToyName(const char** name) { TESSERA_GUARD(Enter_cuToyName(false, name)); }
TESSERA_EXPORT CUresult CUDAAPI cuToyThrow(CUtoy toy, CUstream stream) { TESSERA_GUARD(Enter_cuToyThrow(false, toy, stream)); }
TESSERA_EXPORT CUresult CUDAAPI cuToyHurl(CUtoy toy, CUstream stream) { TESSERA_GUARD(Enter_cuToyHurl(false, toy, stream)); }
