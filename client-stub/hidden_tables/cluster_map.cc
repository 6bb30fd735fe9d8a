// Table 1734DC26: how multiprocessors are grouped for cluster launches. cuBLASLt crashes when the table is refused and
// takes its default path when slot 4 answers anything but success, which every slot here does.

#include "client-stub/hidden_tables/hidden_tables.h"
#include "client-stub/hidden_tables/table.h"

namespace tessera {
namespace {

struct Tag {
  static constexpr const char* kName = "1734DC26";
  static constexpr size_t kWords = 17;
};

}  // namespace

const void* ClusterMap() {
  static HiddenTable<Tag> table;
  return &table;
}

}  // namespace tessera
