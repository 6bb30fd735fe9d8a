// Generated from protocol/spec/toy.toml by protocol/codegen. Do not edit.
// Entries of the domain `toy`: what the spec says of each call, the entry behind each export, and the
// bodies that client-stub/calls writes by hand. Entries may be called by any thread of the application.
#pragma once

#include <cuda.h>
#include <cudaProfiler.h>

#include "client-stub/process/call_info.h"
#include "generated/messages/toy.h"

namespace tessera {

class Call;  // client-stub/call/call.h

inline constexpr CallInfo kInfo_cuToyCreate{"cuToyCreate", 0x0001, CallInfo::Mode::kAsync, CallInfo::Context::kRequired, CallInfo::Capture::kLegal, true, ""};
CUresult Enter_cuToyCreate(bool per_thread, CUtoy* toy, unsigned int flags);

inline constexpr CallInfo kInfo_cuToyDestroy{"cuToyDestroy", 0x0002, CallInfo::Mode::kAsync, CallInfo::Context::kRequired, CallInfo::Capture::kLegal, true, ""};
CUresult Enter_cuToyDestroy(bool per_thread, CUtoy toy);

CUresult Enter_cuToyDestroyOld(bool per_thread, CUtoy toy);

inline constexpr CallInfo kInfo_cuToyRename{"cuToyRename", 0x0004, CallInfo::Mode::kSync, CallInfo::Context::kNone, CallInfo::Capture::kUnsafe, false, ""};
CUresult Enter_cuToyRename(bool per_thread, CUtoy toy, const char* name, const void* data, size_t size, char* old, int length);

inline constexpr CallInfo kInfo_cuToyPlay_v2{"cuToyPlay_v2", 0x0005, CallInfo::Mode::kSync, CallInfo::Context::kRequired, CallInfo::Capture::kLegal, true, ""};
CUresult Enter_cuToyPlay_v2(bool per_thread, const CUtoy* toys, unsigned int number, const CUpoint* points, CUpoint* place, CUtoy* friends, size_t* friend_count, void* userData, CUstream stream);

inline constexpr CallInfo kInfo_cuToyGetColour{"cuToyGetColour", 0x0006, CallInfo::Mode::kCached, CallInfo::Context::kRequired, CallInfo::Capture::kLegal, true, ""};
CUresult Enter_cuToyGetColour(bool per_thread, int* colour, CUtoy toy);
CUresult Custom_cuToyGetColour(Call& call, int* colour, CUtoy toy);

inline constexpr CallInfo kInfo_cuToyPaint{"cuToyPaint", 0x0007, CallInfo::Mode::kSync, CallInfo::Context::kNone, CallInfo::Capture::kLegal, true, "", true};
CUresult Enter_cuToyPaint(bool per_thread, CUtoy toy, void** colours);
CUresult Custom_cuToyPaint(Call& call, CUtoy toy, void** colours);

inline constexpr CallInfo kInfo_cuToyFly{"cuToyFly", 0x0008, CallInfo::Mode::kUnsupported, CallInfo::Context::kRequired, CallInfo::Capture::kLegal, true, "toys do not fly"};
CUresult Enter_cuToyFly(bool per_thread, CUtoy toy);

inline constexpr CallInfo kInfo_cuToyName{"cuToyName", 0x0009, CallInfo::Mode::kLocal, CallInfo::Context::kUninitialized, CallInfo::Capture::kLegal, true, ""};
CUresult Enter_cuToyName(bool per_thread, const char** name);
CUresult Custom_cuToyName(Call& call, const char** name);

inline constexpr CallInfo kInfo_cuToyThrow{"cuToyThrow", 0x000b, CallInfo::Mode::kAsync, CallInfo::Context::kRequired, CallInfo::Capture::kLegal, true, ""};
CUresult Enter_cuToyThrow(bool per_thread, CUtoy toy, CUstream stream);

inline constexpr CallInfo kInfo_cuToyHurl{"cuToyHurl", 0x000c, CallInfo::Mode::kSync, CallInfo::Context::kRequired, CallInfo::Capture::kLegal, true, ""};
CUresult Enter_cuToyHurl(bool per_thread, CUtoy toy, CUstream stream);


}  // namespace tessera
