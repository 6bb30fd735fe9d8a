// Generated from protocol/spec/*.toml by protocol/codegen. Do not edit.

#include "generated/mock/recording_table.h"

namespace tessera {

namespace {

CUresult (*called_hook)(int) = nullptr;

template <int kPosition, typename... Args>
CUresult CUDAAPI Recorded(Args...) {
  return called_hook(kPosition);
}

template <int kPosition, typename... Args>
void Fill(CUresult(CUDAAPI*& entry)(Args...)) {
  entry = &Recorded<kPosition, Args...>;
}

constexpr const char* kNames[] = {
  "cuToyCreate",
  "cuToyDestroy",
  "cuToyDestroyOld",
  "cuToyRename",
  "cuToyPlay_v2",
  "cuToyPlay_v2_ptsz",
  "cuToyGetColour",
  "cuToyPaint",
  "cuToyFly",
  "cuToyName",
  "cuToyThrow",
  "cuToyHurl",
};

}  // namespace

DriverTable MakeRecordingTable(CUresult (*called)(int position)) {
  called_hook = called;
  DriverTable table;
  Fill<0>(table.cuToyCreate);
  Fill<1>(table.cuToyDestroy);
  Fill<2>(table.cuToyDestroyOld);
  Fill<3>(table.cuToyRename);
  Fill<4>(table.cuToyPlay_v2);
  Fill<5>(table.cuToyPlay_v2_ptsz);
  Fill<6>(table.cuToyGetColour);
  Fill<7>(table.cuToyPaint);
  Fill<8>(table.cuToyFly);
  Fill<9>(table.cuToyName);
  Fill<10>(table.cuToyThrow);
  Fill<11>(table.cuToyHurl);
  return table;
}

std::span<const char* const> RecordingNames() { return kNames; }

}  // namespace tessera
