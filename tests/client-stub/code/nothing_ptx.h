// PTX text of a kernel that does nothing.
#pragma once

namespace tessera {

inline constexpr char kNothingPtx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing() { ret; }\n";

}  // namespace tessera
