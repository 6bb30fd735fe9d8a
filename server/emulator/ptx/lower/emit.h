// What most families of instructions emit: a handler that takes its operands from the lanes of registers.
#pragma once

#include "server/emulator/ptx/lower/lower.h"

namespace tessera::emulator {

// Emits with the statement's operands 0 (result), 1, 2, 3 in the given types.
inline void EmitUnary(Lowering& l, Handler run, Type d, Type a) {
  const uint32_t source = l.Source(1, a);
  const uint32_t result = l.Destination(0, d);
  Inst& inst = l.Emit(run);
  inst.dst = result;
  inst.src[0] = source;
}

inline void EmitBinary(Lowering& l, Handler run, Type d, Type a, Type b) {
  const uint32_t first = l.Source(1, a), second = l.Source(2, b);
  const uint32_t result = l.Destination(0, d);
  Inst& inst = l.Emit(run);
  inst.dst = result;
  inst.src[0] = first;
  inst.src[1] = second;
}

inline void EmitTernary(Lowering& l, Handler run, Type d, Type a, Type b, Type c) {
  const uint32_t first = l.Source(1, a), second = l.Source(2, b), third = l.Source(3, c);
  const uint32_t result = l.Destination(0, d);
  Inst& inst = l.Emit(run);
  inst.dst = result;
  inst.src[0] = first;
  inst.src[1] = second;
  inst.src[2] = third;
}

}  // namespace tessera::emulator
