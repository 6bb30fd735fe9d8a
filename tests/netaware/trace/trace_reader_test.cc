// Traces that are whole, and others that are not.
#include "netaware/trace/trace_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <sstream>
#include <string>

namespace tessera {
namespace {

const std::string kTrace = R"({"displayTimeUnit":"ns","traceEvents":[
{"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"train"}},
{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"main"}},
{"ph":"X","name":"cuLaunchKernel","cat":"call","pid":1,"tid":1,"ts":10.000,"dur":2.500,"args":{"waits":0,"kernel":"add"}},
{"ph":"X","name":"cuCtxSynchronize","cat":"call","pid":1,"tid":1,"ts":20.000,"dur":30.000,"args":{"waits":1}},
{"ph":"M","name":"process_name","pid":2,"tid":0,"args":{"name":"worker of tcp://x"}},
{"ph":"b","name":"cuLaunchKernel","cat":"link and queue","id":"2.7","pid":2,"tid":0,"ts":11.000},
{"ph":"X","name":"cuLaunchKernel","cat":"execution","pid":2,"tid":900,"ts":15.000,"dur":1.000,"args":{"thread":1,"kernel":"add"}},
{"ph":"X","name":"add","cat":"gpu","pid":3,"tid":0,"ts":16.000,"dur":20.000,"args":{"record":7}}
],"otherData":{"tessera_trace":1,"events_lost":3,"launches_unmeasured":2}}
)";

Result<TraceFacts> Read(const std::string& text) {
  std::istringstream file(text);
  return ReadTrace(file, "file");
}

TEST(TraceReader, TakesWhatATraceTells) {
  const Result<TraceFacts> read = Read(kTrace);
  ASSERT_TRUE(read.ok()) << read.status().message();
  const TraceFacts& facts = read.value();
  EXPECT_EQ(facts.program, "train");
  EXPECT_EQ(facts.threads.at(1), "main");
  ASSERT_EQ(facts.calls.size(), 2u);
  EXPECT_EQ(facts.names[facts.calls[0].name], "cuLaunchKernel");
  EXPECT_EQ(facts.calls[0].span, (Span{10'000, 12'500}));
  EXPECT_EQ(facts.calls[0].waits, 0u);
  EXPECT_EQ(facts.calls[1].waits, 1u);
  ASSERT_EQ(facts.executions.size(), 1u);
  EXPECT_EQ(facts.executions[0].thread, 1u);
  EXPECT_EQ(facts.executions[0].span, (Span{15'000, 16'000}));
  ASSERT_EQ(facts.work.size(), 1u);
  EXPECT_EQ(facts.names[facts.work[0].name], "add");
  EXPECT_TRUE(facts.over_link);
  EXPECT_EQ(facts.servers, 1u);
  EXPECT_EQ(facts.events_lost, 3u);
  EXPECT_EQ(facts.unmeasured, 2u);
}

// A trace that is cut anywhere is no whole trace, and once the cut can be recognised it is reported.
TEST(TraceReader, ATraceThatIsCutOffIsNone) {
  const size_t last = kTrace.find_last_of('}');
  for (size_t size = 0; size <= last; ++size) {
    const Result<TraceFacts> read = Read(kTrace.substr(0, size));
    ASSERT_FALSE(read.ok()) << size;
    if (size != 0 && size < 60) continue;
    EXPECT_EQ(read.status().code(), StatusCode::kUnavailable) << kTrace.substr(0, size);
  }
  EXPECT_NE(Read("").status().message().find("file ends before its end"), std::string::npos);
}

TEST(TraceReader, WhatIsNoTraceIsNamed) {
  const std::string deep(1'000'000, '[');
  for (const std::string text : {"hello", "[1, 2]", "{}", "null", R"({"traceEvents":7,"otherData":{"tessera_trace":1}})",
                                 R"({"traceEvents":[],"otherData":{"events_lost":0}})", R"({"traceEvents":[{"ph":"X"}]})",
                                 "\x80\xff", R"({"traceEvents":[}]})",
                                 "\x7f"
                                 "ELF"}) {
    const Result<TraceFacts> read = Read(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(read.status().message().find("file is no trace of Tessera"), std::string::npos) << text;
  }
  EXPECT_FALSE(Read(deep).ok());
}

TEST(TraceReader, AnotherFormIsAnotherRelease) {
  const Result<TraceFacts> read = Read(R"({"traceEvents":[],"otherData":{"tessera_trace":2}})");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().code(), StatusCode::kVersionMismatch);
  EXPECT_NE(read.status().message().find("another release (form 2, this one reads 1)"), std::string::npos);
}

// Values of other types, and numbers beyond reason, do no harm.
TEST(TraceReader, StrangeEventsDoNoHarm) {
  const Result<TraceFacts> read = Read(R"({"traceEvents":[7,null,[1],{"ph":1,"name":{},"args":[{"name":"x"}]},
{"ph":"X","name":"a\u001b[2J","cat":"call","pid":1,"tid":-5,"ts":1e300,"dur":-7,"args":{"waits":1e99}},
{"ph":"X","name":"b","cat":"call","pid":1,"tid":1e99,"ts":-3,"dur":1e300}],"otherData":{"tessera_trace":1}})");
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read.value().calls.size(), 2u);
  EXPECT_EQ(read.value().names[0], "a?[2J");
  EXPECT_GE(read.value().calls[0].span.length(), 0);
  EXPECT_GE(read.value().calls[1].span.length(), 0);
}

TEST(TraceReader, AFileThatCannotBeRead) {
  for (const char* path : {"/nonexistent/trace.json", "/tmp", "/dev/zero"}) {
    const Result<TraceFacts> read = ReadTraceFile(path);
    ASSERT_FALSE(read.ok()) << path;
    EXPECT_EQ(read.status().code(), StatusCode::kNotFound);
    EXPECT_NE(read.status().message().find(std::string(path) + " cannot be read: "), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
