// What a program leaves in memory: its operations one after the other, as they stand in it. One that is ordered (order.h) leaves
// the same in whatever order its streams run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "program.h"

namespace order_programs {

using Bytes = std::vector<unsigned char>;

// By which the host fills a region: byte `i` of it for `value`.
inline unsigned char Pattern(uint32_t value, size_t i) { return static_cast<unsigned char>(value + i * 31 + (i >> 8)); }
// What a buffer holds at first.
Bytes FirstContent(const Program& program, int buffer);

class Model {
 public:
  explicit Model(const Program& program);
  const Bytes& buffer(int number) const { return buffers_[number]; }
  // What an operation that reads finds.
  const Bytes& expected(const Operation& operation) const { return expected_.at(&operation); }
  // The operation that wrote the byte last; nothing where none did.
  std::string Writer(int buffer, size_t byte) const;

 private:
  void Apply(const Operation& operation);

  const Program& program_;
  std::vector<Bytes> buffers_;
  std::map<const Operation*, Bytes> expected_;
};

}  // namespace order_programs
