#include "model.h"

#include <cstring>
#include <random>

namespace order_programs {
namespace {

// `visit(to, from)`: where each row begins.
template <typename Visit>
void EachRow(const Operation& operation, Visit visit) {
  for (size_t z = 0; z < operation.slices; ++z) {
    for (size_t y = 0; y < operation.rows; ++y) {
      visit(operation.to.offset + z * operation.to.slice + y * operation.to.pitch,
            operation.from.offset + z * operation.from.slice + y * operation.from.pitch);
    }
  }
}

}  // namespace

Bytes FirstContent(const Program& program, int buffer) {
  // A window of the same random bytes, somewhere else for each program and buffer.
  constexpr size_t kPlaces = 1 << 16;
  static Bytes all;
  if (all.size() < program.buffer_bytes + kPlaces) {
    std::mt19937_64 random(1);
    all.resize(program.buffer_bytes + kPlaces);
    for (unsigned char& byte : all) byte = static_cast<unsigned char>(random());
  }
  const size_t place = (program.content * kBufferCount + static_cast<uint64_t>(buffer)) * 7919 % kPlaces;
  return Bytes(all.begin() + static_cast<std::ptrdiff_t>(place),
               all.begin() + static_cast<std::ptrdiff_t>(place + program.buffer_bytes));
}

Model::Model(const Program& program) : program_(program) {
  for (int buffer = 0; buffer < kBufferCount; ++buffer) buffers_.push_back(FirstContent(program, buffer));
  for (const Operation& operation : program.operations) Apply(operation);
}

void Model::Apply(const Operation& operation) {
  unsigned char* const to = operation.to.buffer < 0 ? nullptr : buffers_[operation.to.buffer].data();
  const unsigned char* const from = operation.from.buffer < 0 ? nullptr : buffers_[operation.from.buffer].data();
  switch (operation.kind) {
    case Kind::kCopy:
      EachRow(operation, [&](size_t to_row, size_t from_row) { std::memcpy(to + to_row, from + from_row, operation.width); });
      return;
    case Kind::kSet:
      EachRow(operation, [&](size_t to_row, size_t) {
        for (size_t i = 0; i < operation.width; ++i) {
          to[to_row + i] = static_cast<unsigned char>(operation.value >> (8 * (i % operation.element_bytes)));
        }
      });
      return;
    case Kind::kKernel: {
      uint32_t row = 0;
      EachRow(operation, [&](size_t to_row, size_t from_row) {
        const uint32_t other = from == nullptr ? to[to_row] : from[from_row];
        to[to_row] = static_cast<unsigned char>(3 * to[to_row] + other + operation.value + row++);
      });
      return;
    }
    case Kind::kHostFunctionWrite:
    case Kind::kHostWrite:
      for (size_t i = 0; i < operation.width; ++i) to[operation.to.offset + i] = Pattern(operation.value, i);
      return;
    case Kind::kHostFunctionRead:
    case Kind::kHostRead:
      expected_[&operation] = Bytes(from + operation.from.offset, from + operation.from.offset + operation.width);
      return;
    case Kind::kGraph:
    case Kind::kOther:
      for (const Operation& node : operation.nodes) Apply(node);
      return;
    default: return;
  }
}

std::string Model::Writer(int buffer, size_t byte) const {
  for (size_t i = program_.operations.size(); i-- > 0;) {
    const Operation& operation = program_.operations[i];
    const auto writes = [&](const Operation& one) { return one.to.buffer == buffer && Contains(one, one.to, byte); };
    bool found = writes(operation);
    for (const Operation& node : operation.nodes) found = found || writes(node);
    if (found) return "operation " + std::to_string(i);
  }
  return "nothing";
}

}  // namespace order_programs
