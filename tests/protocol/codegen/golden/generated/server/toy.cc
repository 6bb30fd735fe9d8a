// Generated from protocol/spec/toy.toml by protocol/codegen. Do not edit.

#include "generated/server/toy.h"

#include <cstring>

#include "generated/driver_table.h"
#include "server/worker/handler_support.h"
#include "server/worker/await_turn.h"

namespace tessera {

void Handle_cuToyCreate(CallContext& call, Decoder& in) {
  cuToyCreateRequest request;
  if (!request.Decode(in) || !in.AtEnd()) return call.Malformed();
  if (call.driver().cuToyCreate == nullptr) return call.Finish(MissingEntry("cuToyCreate"));
  CUtoy toy{};
  if (!call.ok()) return call.Finish(call.error());
  const CUresult result = call.driver().cuToyCreate(&toy, request.flags);
  if (result == CUDA_SUCCESS) {
    call.New(request.toy, toy);
  }
  call.Finish(result);
}

void Handle_cuToyDestroy(CallContext& call, Decoder& in) {
  cuToyDestroyRequest request;
  if (!request.Decode(in) || !in.AtEnd()) return call.Malformed();
  if (call.driver().cuToyDestroy == nullptr) return call.Finish(MissingEntry("cuToyDestroy"));
  CUtoy toy = call.Use<CUtoy>(request.toy);
  if (!call.ok()) return call.Finish(call.error());
  const CUresult result = call.driver().cuToyDestroy(toy);
  if (result == CUDA_SUCCESS) {
    call.Free(request.toy);
  }
  call.Finish(result);
}

void Handle_cuToyRename(CallContext& call, Decoder& in) {
  cuToyRenameRequest request;
  if (!request.Decode(in) || !in.AtEnd()) return call.Malformed();
  if (call.driver().cuToyRename == nullptr) return call.Finish(MissingEntry("cuToyRename"));
  cuToyRenameReply reply;
  CUtoy toy = call.Use<CUtoy>(request.toy);
  const char* name = ScratchText(call, request.name);
  const size_t old_size = SizeOf(request.length);
  char* old = ScratchFor<char>(call, old_size);
  if (!call.ok()) return call.Finish(call.error());
  const CUresult result = call.driver().cuToyRename(toy, name, reinterpret_cast<const void*>(Writable(request.data.data())), request.size, old, request.length);
  if (result == CUDA_SUCCESS) {
    reply.old = TextIn(old, old_size);
  }
  call.Finish(result, reply);
}

void Handle_cuToyPlay_v2(CallContext& call, Decoder& in) {
  cuToyPlay_v2Request request;
  if (!request.Decode(in) || !in.AtEnd()) return call.Malformed();
  if (call.driver().cuToyPlay_v2 == nullptr) return call.Finish(MissingEntry("cuToyPlay_v2"));
  cuToyPlay_v2Reply reply;
  CUtoy* toys = ScratchFor<CUtoy>(call, request.toys.size());
  if (toys != nullptr) for (size_t i = 0; i < request.toys.size(); ++i) toys[i] = call.Use<CUtoy>(request.toys[i]);
  reply.place = request.place;
  const size_t friends_size = request.has_friends ? SizeOf(request.friend_count) : 0;
  CUtoy* friends = ScratchFor<CUtoy>(call, friends_size);
  reply.friend_count = request.friend_count;
  CUstream stream = call.UseStream(request.stream);
  if (!call.ok()) return call.Finish(call.error());
  const CUresult result = call.driver().cuToyPlay_v2(request.has_toys ? toys : nullptr, request.number, request.points.data(), &reply.place, request.has_friends ? friends : nullptr, &reply.friend_count, reinterpret_cast<void*>(request.userData), stream);
  if (result == CUDA_SUCCESS) {
    HandleId* friends_ids = reply.friends.Allocate(Smaller(friends_size, reply.friend_count));
    for (size_t i = 0; i < reply.friends.size(); ++i) friends_ids[i] = call.Known(HandleKind::kEvent, friends[i]);
  }
  call.Finish(result, reply);
}

void Handle_cuToyGetColour(CallContext& call, Decoder& in) {
  cuToyGetColourRequest request;
  if (!request.Decode(in) || !in.AtEnd()) return call.Malformed();
  if (call.driver().cuToyGetColour == nullptr) return call.Finish(MissingEntry("cuToyGetColour"));
  cuToyGetColourReply reply;
  CUtoy toy = call.Use<CUtoy>(request.toy);
  if (!call.ok()) return call.Finish(call.error());
  const CUresult result = call.driver().cuToyGetColour(&reply.colour, toy);
  call.Finish(result, reply);
}

void Handle_cuToyPaint(CallContext& call, Decoder& in) {
  cuToyPaintRequest request;
  if (!request.Decode(in) || !in.AtEnd()) return call.Malformed();
  Do_cuToyPaint(call, request);
}

void Handle_cuToyThrow(CallContext& call, Decoder& in) {
  cuToyThrowRequest request;
  if (!request.Decode(in) || !in.AtEnd()) return call.Malformed();
  if (call.driver().cuToyThrow == nullptr) return call.Finish(MissingEntry("cuToyThrow"));
  CUtoy toy = call.Use<CUtoy>(request.toy);
  CUstream stream = call.UseStream(request.stream);
  if (!call.ok()) return call.Finish(call.error());
  AwaitTurn(call, stream, {0x000b});
  const CUresult result = call.driver().cuToyThrow(toy, stream);
  call.Finish(result);
}

void Handle_cuToyHurl(CallContext& call, Decoder& in) {
  cuToyHurlRequest request;
  if (!request.Decode(in) || !in.AtEnd()) return call.Malformed();
  Do_cuToyHurl(call, request);
}

void Turn_cuToyHurl(CallContext& call, Decoder& in) {
  cuToyHurlRequest request;
  if (request.Decode(in)) Await_cuToyHurl(call, request);
}

void Handle_tesseraToyTick(CallContext& call, Decoder& in) {
  tesseraToyTickRequest request;
  if (!request.Decode(in) || !in.AtEnd()) return call.Malformed();
  Do_tesseraToyTick(call, request);
}


}  // namespace tessera
