// Generated from protocol/spec/toy.toml by protocol/codegen. Do not edit.

#include <cuda.h>
#include <cudaProfiler.h>

#include "tests/protocol/spec/call_check.h"

namespace tessera {

void AddCalls_toy(std::vector<TestedCall>* calls) {
  calls->push_back({"cuToyCreate", 0x0001, "async", true, [](ArgumentSource& source) { return ::cuToyCreate(source.Output<CUtoy*>(), source.Number<unsigned int>(1)); }});
  calls->push_back({"cuToyDestroy", 0x0002, "async", false, [](ArgumentSource& source) { return ::cuToyDestroy(source.Handle<CUtoy>(HandleKind::kEvent)); }});
  calls->push_back({"cuToyDestroyOld", 0x0002, "async", false, [](ArgumentSource& source) { return ::cuToyDestroyOld(source.Handle<CUtoy>(HandleKind::kEvent)); }});
  calls->push_back({"cuToyRename", 0x0004, "sync", true, [](ArgumentSource& source) { return ::cuToyRename(source.Handle<CUtoy>(HandleKind::kEvent), source.Input<const char*>(), source.Input<const void*>(), source.Number<size_t>(1), source.Output<char*>(), source.Number<int>(1)); }});
  calls->push_back({"cuToyPlay_v2", 0x0005, "sync", true, [](ArgumentSource& source) { return ::cuToyPlay_v2(source.Handles<const CUtoy*>(HandleKind::kEvent), source.Number<unsigned int>(1), source.Input<const CUpoint*>(), source.Input<CUpoint*>(), source.Output<CUtoy*>(), source.Input<size_t*>(), source.Input<void*>(), source.Handle<CUstream>(HandleKind::kStream)); }});
  calls->push_back({"cuToyPlay_v2_ptsz", 0x0005, "sync", true, [](ArgumentSource& source) { return ::cuToyPlay_v2_ptsz(source.Handles<const CUtoy*>(HandleKind::kEvent), source.Number<unsigned int>(1), source.Input<const CUpoint*>(), source.Input<CUpoint*>(), source.Output<CUtoy*>(), source.Input<size_t*>(), source.Input<void*>(), source.Handle<CUstream>(HandleKind::kStream)); }});
  calls->push_back({"cuToyGetColour", 0x0006, "cached", true, [](ArgumentSource& source) { return ::cuToyGetColour(source.Output<int*>(), source.Handle<CUtoy>(HandleKind::kEvent)); }});
  calls->push_back({"cuToyPaint", 0x0007, "sync", false, [](ArgumentSource& source) { return ::cuToyPaint(source.Handle<CUtoy>(HandleKind::kEvent), source.Input<void**>()); }});
  calls->push_back({"cuToyFly", 0x0008, "unsupported", false, [](ArgumentSource& source) { return ::cuToyFly(source.Handle<CUtoy>(HandleKind::kEvent)); }});
  calls->push_back({"cuToyName", 0x0009, "local", true, [](ArgumentSource& source) { return ::cuToyName(source.Output<const char**>()); }});
  calls->push_back({"cuToyThrow", 0x000b, "async", false, [](ArgumentSource& source) { return ::cuToyThrow(source.Handle<CUtoy>(HandleKind::kEvent), source.Handle<CUstream>(HandleKind::kStream)); }});
  calls->push_back({"cuToyHurl", 0x000c, "sync", false, [](ArgumentSource& source) { return ::cuToyHurl(source.Handle<CUtoy>(HandleKind::kEvent), source.Handle<CUstream>(HandleKind::kStream)); }});
}

}  // namespace tessera
