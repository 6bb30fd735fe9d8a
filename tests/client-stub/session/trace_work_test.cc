// Lanes of the GPU in a trace, and the names of kernels.
#include "client-stub/session/trace_work.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client-stub/session/trace_lines.h"

namespace tessera {
namespace {

constexpr uint64_t kAheadNs = 1'000'000;

std::string Lanes(const std::vector<TraceWork>& work, const std::vector<std::string>& names) {
  std::string text;
  TracedWork(work, names).AddLanes(3, "GPU of x", kAheadNs, &text);
  return text;
}

TEST(TraceLines, AKernelHasTheNameOfItsSource) {
  EXPECT_EQ(TraceKernel("_Z3addPfi"), "add(float*, int)");
  EXPECT_EQ(TraceKernel("_ZN2at6native4gemmIfEEvPT_"), "void at::native::gemm<float>(float*)");
  EXPECT_EQ(TraceKernel("add"), "add");
  EXPECT_EQ(TraceKernel("f"), "f");  // not a float
  EXPECT_EQ(TraceKernel("_Znonsense"), "_Znonsense");
  EXPECT_EQ(TraceKernel(""), "");
}

TEST(TraceLines, NamesEndNoStringOfTheFile) {
  EXPECT_EQ(TraceKernel("a\"b\\c\nd\x80"), "a_b_c_d_");
  EXPECT_EQ(TraceKernel(std::string(10'000, 'k')).size(), kTraceKernelMax);
}

TEST(TracedWork, ARecordHasTheNameOfItsKernel) {
  const std::vector<TraceWork> work = {{7, 0, 0, 1, 0}, {8, 0, 0, 9, 0}};
  const std::vector<std::string> names = {"add", "mul"};
  const TracedWork traced(work, names);
  EXPECT_EQ(traced.KernelOf(7), "mul");
  EXPECT_EQ(traced.KernelOf(8), "");  // the worker did not tell it
  EXPECT_EQ(traced.KernelOf(9), "");
}

TEST(TracedWork, EachStreamHasALane) {
  const std::string text = Lanes({{7, 2'000'000, 2'500'000, 0, 0}, {8, 3'000'000, 3'000'500, 0, 1}}, {"add"});
  EXPECT_NE(text.find(R"("name":"process_name","pid":3,"tid":0,"args":{"name":"GPU of x"}})"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("tid":1,"args":{"name":"stream 1"}})"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("name":"add","cat":"gpu","pid":3,"tid":0,"ts":1000.000,"dur":500.000,"args":{"record":7}})"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(R"("pid":3,"tid":1,"ts":2000.000,"dur":0.500,)"), std::string::npos) << text;
}

TEST(TracedWork, NothingOverlapsInAStream) {
  const std::string text = Lanes({{8, 2'400'000, 2'600'000, 0, 0}, {7, 2'000'000, 2'500'000, 0, 0}}, {"add"});
  EXPECT_NE(text.find(R"("ts":1500.000,"dur":100.000)"), std::string::npos) << text;
}

TEST(TracedWork, WhatWasNotMeasuredIsCounted) {
  const std::vector<TraceWork> work = {{7, 0, 0, 0, 0}, {8, 2'000'000, 2'500'000, 0, 0}};
  const std::vector<std::string> names = {"add"};
  EXPECT_EQ(TracedWork(work, names).unmeasured(), 1u);
  EXPECT_EQ(Lanes({{7, 0, 0, 0, 0}}, {"add"}), "");
}

}  // namespace
}  // namespace tessera
