#include "server/worker/memory/array_bytes.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(TakenByArray, IsNoLessThanWhatADriverTakes) {
  struct Row {
    uint64_t needed_kib;
    unsigned levels;
    uint64_t taken_kib;
  };
  // Driver 580 on an H100.
  for (const Row& row :
       {Row{64, 0, 64}, Row{256, 0, 256}, Row{1024, 0, 1024}, Row{1280, 0, 2048}, Row{3072, 0, 4096}, Row{9216, 0, 10240},
        Row{1024, 1, 1024}, Row{128, 8, 96}, Row{384, 9, 416}, Row{704, 3, 688}, Row{704, 10, 1024}, Row{192, 3, 160},
        Row{1216, 3, 2048}, Row{1408, 10, 2048}, Row{2688, 3, 4096}, Row{4224, 11, 6144}, Row{12928, 12, 14336}}) {
    const uint64_t counted = TakenByArray(row.needed_kib << 10, row.levels) >> 10;
    EXPECT_GE(counted, row.taken_kib) << row.needed_kib << " KiB of " << row.levels << " levels";
    EXPECT_LE(counted, 2 * row.needed_kib);
  }
  EXPECT_EQ(TakenByArray(UINT64_MAX, 3), UINT64_MAX);
}

}  // namespace
}  // namespace tessera
