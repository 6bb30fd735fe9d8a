// FaST-GShare's annotations, and what they say against fields.
#include "server/broker/vgpu_annotations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using ::testing::HasSubstr;

constexpr const char* kRequest = "fastgshare/gpu_quota_request";
constexpr const char* kLimit = "fastgshare/gpu_quota_limit";
constexpr const char* kMemory = "fastgshare/gpu_mem";
constexpr const char* kSms = "fastgshare/gpu_sm_partition";

void ExpectRefused(const VgpuAnnotations& annotations, const std::string& words, const AnnotatedFields& given = {}) {
  const Result<AnnotatedFields> read = ReadAnnotations(annotations, given);
  ASSERT_FALSE(read.ok()) << words;
  EXPECT_EQ(read.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(read.status().message(), HasSubstr(words));
}

TEST(VgpuAnnotations, EachIsAnotherWordForAField) {
  const Result<AnnotatedFields> read =
      ReadAnnotations({{kRequest, "0.4"}, {kLimit, "1.0"}, {kMemory, "1073741824"}, {kSms, "24"}}, {});
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value(), (AnnotatedFields{0.4, 1.0, uint64_t{1} << 30, 24}));
}

TEST(VgpuAnnotations, BoundsBelongToIt) {
  for (const auto& [text, share] : {std::pair("0", 0.0), {"1", 1.0}, {".5", 0.5}, {"0.50", 0.5}}) {
    EXPECT_EQ(ReadAnnotations({{kLimit, text}}, {}).value().limit, share) << text;
  }
  EXPECT_EQ(ReadAnnotations({{kMemory, "18446744073709551615"}}, {}).value().memory_bytes, UINT64_MAX);
  EXPECT_EQ(ReadAnnotations({{kSms, "1"}}, {}).value().sm_percent, 1u);
  EXPECT_EQ(ReadAnnotations({{kSms, "100"}}, {}).value().sm_percent, 100u);
}

TEST(VgpuAnnotations, FieldsStayWhereNoneSaysAnything) {
  const AnnotatedFields given = {0.25, std::nullopt, 4096, std::nullopt};
  EXPECT_EQ(ReadAnnotations({}, given).value(), given);
  EXPECT_EQ(ReadAnnotations({{kLimit, "0.5"}}, given).value(), (AnnotatedFields{0.25, 0.5, 4096, std::nullopt}));
}

TEST(VgpuAnnotations, AFieldMaySayTheSameAndNothingElse) {
  const AnnotatedFields given = {0.25, 0.5, 4096, std::nullopt};
  EXPECT_EQ(ReadAnnotations({{kRequest, "0.250"}, {kLimit, ".5"}, {kMemory, "4096"}}, given).value(), given);
  ExpectRefused({{kRequest, "0.3"}}, "annotation fastgshare/gpu_quota_request: '0.3' contradicts request 0.25", given);
  ExpectRefused({{kLimit, "1"}}, "annotation fastgshare/gpu_quota_limit: '1' contradicts limit 0.5", given);
  ExpectRefused({{kMemory, "4097"}}, "annotation fastgshare/gpu_mem: '4097' contradicts memory_bytes 4096", given);
}

TEST(VgpuAnnotations, ValuesOfAnotherFormAreRefused) {
  for (const char* const key : {kRequest, kLimit}) {
    for (const char* const text : {"", " ", ".", "1.01", "2", "-0.1", "-0", "+1", "0.5 ", " 0.5", "0,5", "50%", "0.5.1", "5e-1",
                                   "0x1", "nan", "inf", "half", "0.5\n"}) {
      ExpectRefused({{key, text}}, std::string("annotation ") + key + ": '");
      ExpectRefused({{key, text}}, "' is no share from 0 to 1, like 0.5");
    }
  }
  for (const char* const text :
       {"", "0", "-1", "+1", "8GiB", "1.5", "1e9", "0x10", " 1", "1 ", "1_000", "18446744073709551616"}) {
    ExpectRefused({{kMemory, text}}, std::string("annotation fastgshare/gpu_mem: '") + text + "' is no number of bytes above 0");
  }
  for (const char* const text : {"", "0", "101", "-1", "+1", "12.5", "24%", " 24", "1e1", "4294967297"}) {
    ExpectRefused({{kSms, text}}, std::string("annotation fastgshare/gpu_sm_partition: '") + text + "' is no whole percentage");
  }
  const std::string with_zero("0.5\0", 4);
  ExpectRefused({{kRequest, with_zero}}, "is no share");
}

TEST(VgpuAnnotations, KeysThatNobodyKnowsAreRefused) {
  for (const char* const key : {"", "fastgshare/", "fastgshare/gpu", "fastgshare/gpu_memory", "FASTGSHARE/gpu_mem", "gpu_mem",
                                "sharedgpu/gpu_request", "kubernetes.io/name", "fastgshare/gpu_mem "}) {
    ExpectRefused({{key, "1"}}, std::string("annotation '") + key + "', with the value '1', is none that this server knows");
  }
  ExpectRefused({{"a/b", "c"}},
                "there are fastgshare/gpu_quota_request, fastgshare/gpu_quota_limit, fastgshare/gpu_mem, "
                "fastgshare/gpu_sm_partition");
  // One bad one beside good ones.
  ExpectRefused({{kRequest, "0.5"}, {"zzz", ""}}, "annotation 'zzz'");
}

TEST(VgpuAnnotations, WhatIsShownOfThemIsShortAndPrintable) {
  const Result<AnnotatedFields> read = ReadAnnotations({{std::string(60'000, 'k') + "\x1b", std::string(60'000, '\n')}}, {});
  ASSERT_FALSE(read.ok());
  EXPECT_LT(read.status().message().size(), 1'000u);
  EXPECT_EQ(read.status().message().find('\n'), std::string::npos);
}

}  // namespace
}  // namespace tessera
