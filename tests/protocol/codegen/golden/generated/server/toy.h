// Generated from protocol/spec/toy.toml by protocol/codegen. Do not edit.
// Handlers of the domain `toy`, and the bodies that server/worker/calls writes by hand.
// Called by the executor thread, a helper thread (blocking calls), or the aside thread (what host functions ask).
#pragma once

#include "generated/messages/toy.h"
#include "server/worker/call_context.h"

namespace tessera {

void Handle_cuToyCreate(CallContext& call, Decoder& in);
void Handle_cuToyDestroy(CallContext& call, Decoder& in);
void Handle_cuToyRename(CallContext& call, Decoder& in);
void Handle_cuToyPlay_v2(CallContext& call, Decoder& in);
void Handle_cuToyGetColour(CallContext& call, Decoder& in);
void Handle_cuToyPaint(CallContext& call, Decoder& in);
void Do_cuToyPaint(CallContext& call, const cuToyPaintRequest& request);
void Handle_cuToyThrow(CallContext& call, Decoder& in);
void Handle_cuToyHurl(CallContext& call, Decoder& in);
void Do_cuToyHurl(CallContext& call, const cuToyHurlRequest& request);
// Executor thread, before the call: waits for its turn, and ends nothing.
void Turn_cuToyHurl(CallContext& call, Decoder& in);
void Await_cuToyHurl(CallContext& call, const cuToyHurlRequest& request);
void Handle_tesseraToyTick(CallContext& call, Decoder& in);
void Do_tesseraToyTick(CallContext& call, const tesseraToyTickRequest& request);

}  // namespace tessera
