// Generated from protocol/spec/*.toml by protocol/codegen. Do not edit.

#include "tests/server/worker/gated/gated_call.h"

#include "generated/messages/toy.h"

namespace tessera {

std::vector<GatedCall> AllGatedCalls() {
  return {
    {"cuToyRename", 0x0004, [](Arguments& given, Encoder& out) {
      cuToyRenameRequest request;
      given.Handle("toy", HandleKind::kEvent, &request.toy);
      given.Text("name", &request.name);
      given.Bytes("data", &request.data);
      given.Plain("size", &request.size);
      given.Plain("length", &request.length);
      request.Encode(out);
    }},
    {"cuToyPlay_v2", 0x0005, [](Arguments& given, Encoder& out) {
      cuToyPlay_v2Request request;
      given.Plain("has_toys", &request.has_toys);
      given.Handles("toys", HandleKind::kEvent, &request.toys);
      given.Plain("number", &request.number);
      given.Elements("points", &request.points);
      given.Plain("place", &request.place);
      given.Plain("has_friends", &request.has_friends);
      given.Plain("friend_count", &request.friend_count);
      given.Plain("userData", &request.userData);
      given.Handle("stream", HandleKind::kStream, &request.stream);
      request.Encode(out);
    }},
    {"cuToyThrow", 0x000b, [](Arguments& given, Encoder& out) {
      cuToyThrowRequest request;
      given.Handle("toy", HandleKind::kEvent, &request.toy);
      given.Handle("stream", HandleKind::kStream, &request.stream);
      request.Encode(out);
    }},
    {"cuToyHurl", 0x000c, [](Arguments& given, Encoder& out) {
      cuToyHurlRequest request;
      given.Handle("toy", HandleKind::kEvent, &request.toy);
      given.Handle("stream", HandleKind::kStream, &request.stream);
      request.Encode(out);
    }},
  };
}

}  // namespace tessera
