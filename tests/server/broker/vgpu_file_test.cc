#include "server/broker/vgpu_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/broker/gpu_name.h"
#include "tests/server/broker/test_pages.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

const GpusMessage kGpus = TestGpus(2);

Result<VgpuFile> Read(const std::string& text, double default_request = 0) {
  return ReadVgpuFile(text, {kGpus.uuids, default_request});
}

// What the refusal says; empty when it is read.
std::string Refusal(const std::string& text) {
  const Result<VgpuFile> file = Read(text);
  if (file.ok()) return "";
  EXPECT_EQ(file.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(file.status().message().find('\n'), std::string::npos);
  EXPECT_THAT(file.status().message(), StartsWith("line "));
  return file.status().message();
}

TEST(VgpuFile, ReadsAllFields) {
  const VgpuFile file = Read(R"(
# a comment
[[vgpu]]
name = "train"
gpu = 1
request = 0.7
limit = 0.9
memory = "8GiB"
max_sessions = 3
processes = 4
sm_percent = 24
priority = "best-effort"
owners = ["uid:1000", "name:lab seven"]

[[vgpu]]
name = "rest"
gpu = "GPU-01010101-0101-0101-0101-010101010101"
)")
                            .value();
  ASSERT_EQ(file.vgpus.size(), 2u);
  const FileVgpu& train = file.vgpus[0];
  EXPECT_EQ(train.spec, (VgpuSpec{"train", 0.7, 0.9, Priority::kBestEffort, Overrun::kBill, uint64_t{8} << 30, 3, 4, 24}));
  EXPECT_EQ(train.gpu, 1u);
  EXPECT_THAT(train.owners, ElementsAre("uid:1000", "name:lab seven"));
  EXPECT_EQ(train.line, 3u);
  EXPECT_EQ(file.vgpus[1].spec, (VgpuSpec{"rest", 0, 1, Priority::kNormal}));
  EXPECT_EQ(file.vgpus[1].gpu, 0u);
  EXPECT_THAT(file.vgpus[1].owners, IsEmpty());
  EXPECT_THAT(file.notes, ElementsAre("sm_percent is kept, and not enforced yet"));
}

TEST(VgpuFile, AnEmptyFileHasNone) {
  EXPECT_TRUE(Read("").value().vgpus.empty());
  EXPECT_TRUE(Read("\n# nothing\n").value().vgpus.empty());
  EXPECT_TRUE(Read("0\n").value().vgpus.empty());
}

TEST(VgpuFile, TheDefaultRequestIsOfThoseThatStateNone) {
  const VgpuFile file = Read("[[vgpu]]\nname='a'\n[[vgpu]]\nname='b'\nrequest=1\n", 0.25).value();
  EXPECT_EQ(file.vgpus[0].spec.request, 0.25);
  EXPECT_EQ(file.vgpus[1].spec.request, 1);
}

TEST(VgpuFile, RefusalsNameLineFieldAndValue) {
  struct Bad {
    const char* text;
    const char* says;
  };
  const Bad bads[] = {
      {"[[vgpu]]\nname='a'\nrequest=1.5\n", "line 1: vGPU 'a': request 1.5 is 0.5 above 1"},
      {"[[vgpu]]\nname='a'\nrequest=-1\n", "request -1 is 1 below 0"},
      {"[[vgpu]]\nname='a'\nrequest=nan\n", "request: it is no number"},
      {"[[vgpu]]\nname='a'\nrequest=0.5\nlimit=0.25\n", "limit 0.25 is 0.25 below the request 0.5"},
      {"[[vgpu]]\nname='a'\nlimit=0\n", "limit 0 is not above 0"},
      {"[[vgpu]]\nrequest=0.5\n", "line 1: a vGPU without name"},
      {"[[vgpu]]\nname=''\n", "name: it is empty"},
      {"[[vgpu]]\nname='a b'\n", "name: only A-Z"},
      {"[[vgpu]]\nname='a\x01'\n", "line 2: "},
      {"[[vgpu]]\nname='default'\n", "line 1: name 'default' is that of"},
      {"[[vgpu]]\nname='a'\n[[vgpu]]\nname='a'\ngpu=1\n", "line 3: name 'a' stands in line 1 already"},
      {"[[vgpu]]\nname='a'\ngpu=2\n", "line 3: gpu 2: the server has 2 GPUs"},
      {"[[vgpu]]\nname='a'\ngpu=-1\n", "gpu -1: "},
      {"[[vgpu]]\nname='a'\ngpu='GPU-7'\n", "gpu GPU-7: "},
      {"[[vgpu]]\nname='a'\ngpu=0.5\n", "gpu is a number, and a GPU's number or its UUID belongs there"},
      {"[[vgpu]]\nname='a'\nrequest='much'\n", "line 3: request is a text, and a number from 0 to 1 belongs there"},
      {"[[vgpu]]\nname=7\n", "line 2: name is a whole number, and a text belongs there"},
      {"[[vgpu]]\nname='a'\npriority='high'\n", "priority 'high' is none of protected, normal, best-effort"},
      {"[[vgpu]]\nname='a'\nowners='uid:7'\n", "owners is a text, and a list"},
      {"[[vgpu]]\nname='a'\nowners=[]\n", "owners is empty"},
      {"[[vgpu]]\nname='a'\nowners=['root']\n", "line 3: owner 'root' is not of the form uid:N"},
      {"[[vgpu]]\nname='a'\nowners=['uid:']\n", "owner 'uid:' is not"},
      {"[[vgpu]]\nname='a'\nowners=['uid:01']\n", "owner 'uid:01' is not"},
      {"[[vgpu]]\nname='a'\nowners=['name:']\n", "owner 'name:' is not"},
      {"[[vgpu]]\nname='a'\nowners=['anonymous']\n", "owner 'anonymous' is not"},
      {"[[vgpu]]\nname='a'\nowners=['uid:-1']\n", "owner 'uid:-1' is not"},
      {"[[vgpu]]\nname='a'\nowners=['uid:4294967296']\n", "owner 'uid:4294967296' is not"},
      {"[[vgpu]]\nname='a'\nowners=[7]\n", "each of owners is a whole number"},
      {"[[vgpu]]\nname='a'\nmemory=0\n", "line 3: memory '0' is no number of bytes above 0"},
      {"[[vgpu]]\nname='a'\nmemory=-7\n", "memory '-7' is no number of bytes"},
      {"[[vgpu]]\nname='a'\nmemory='8GB'\n", "memory '8GB' is no number of bytes"},
      {"[[vgpu]]\nname='a'\nmemory=1.5\n", "memory is a number, and a number of bytes or a text such as \"8GiB\" belongs there"},
      {"[[vgpu]]\nname='a'\nprocesses=0\n", "line 3: processes 0 is not 1 to 1024: leave it out for 1"},
      {"[[vgpu]]\nname='a'\nmax_sessions=0\n", "line 3: max_sessions 0 is not 1 to 4294967295"},
      {"[[vgpu]]\nname='a'\nmax_sessions=-1\n", "max_sessions -1 is not"},
      {"[[vgpu]]\nname='a'\nmax_sessions=4294967296\n", "max_sessions 4294967296 is not"},
      {"[[vgpu]]\nname='a'\nmax_sessions='3'\n", "max_sessions is a text, and a whole number belongs there"},
      {"[[vgpu]]\nname='a'\nsm_percent=0\n", "line 3: sm_percent 0 is not 1 to 100"},
      {"[[vgpu]]\nname='a'\nsm_percent=101\n", "sm_percent 101 is not 1 to 100"},
      {"[[vgpu]]\nname='a'\nsm_percent=12.5\n", "sm_percent is a number, and a whole number belongs there"},
      {"[[vgpu]]\nname='a'\ntile=7\n", "line 3: 'tile' is no field of a vGPU"},
      {"[vgpu]\nname='a'\n", "line 1: 'vgpu' has no meaning here: write [[vgpu]]"},
      {"vgpu=[1]\n", "line 1: vgpu is no table"},
      {"policy='fair'\n", "line 1: 'policy' has no meaning here"},
      {"[[vgpu]]\nname='a'\nname='b'\n", "line 3: "},
      {"[[vgpu]]\nname='a'\nrequest=0.", "line 3: "},  // half written
      {"[[vgp", "line 1: "},
      {"\xff\xfe\n", "line 1: "},
      {"1\na 0.5\n", "line 2: 2 words, where ID REQUEST LIMIT GPU_MEM"},
      {"1\na 0.5 1 2 3 4\n", "line 2: 6 words"},
      {"1\na half 1 2\n", "line 2: REQUEST 'half' is no number"},
      {"1\na 0.5 1x 2\n", "line 2: LIMIT '1x' is no number"},
      {"1\na 0.5 1 2G\n", "line 2: GPU_MEM '2G' is no number of bytes"},
      {"1\na 0.5 1 101 2\n", "line 2: SM% '101' is not above 0 and up to 100"},
      {"1\na 0.5 1 0 2\n", "line 2: SM% '0'"},
      {"1\na 0.5 0.25 2\n", "line 2: vGPU 'a': limit 0.25 is 0.25 below"},
      {"1\na inf 1 2\n", "request: it is no number"},
      {"2\na 0.5 1 2\n", "line 1: 2 lines are to follow, and 1 do"},
      {"1\na 0.5 1 2\nb 0.1 1 2\n", "line 3: line 1 says that 1 follow, and this is one more"},
      {"99999999999999999999\n", "line 1: '99999999999999999999' is no number of lines"},
  };
  for (const Bad& bad : bads) EXPECT_THAT(Refusal(bad.text), HasSubstr(bad.says)) << bad.text;
}

TEST(VgpuFile, ReadsGeminisForm) {
  const VgpuFile file = Read("2\n\nclient1 0.3 1.0 1073741824\n  client2\t0.5 0.75 0\r\n").value();
  ASSERT_EQ(file.vgpus.size(), 2u);
  EXPECT_EQ(file.vgpus[0].spec, (VgpuSpec{"client1", 0.3, 1, Priority::kNormal, Overrun::kBill, uint64_t{1} << 30}));
  EXPECT_EQ(file.vgpus[1].spec, (VgpuSpec{"client2", 0.5, 0.75, Priority::kNormal}));
  EXPECT_EQ(file.vgpus[1].line, 4u);
  EXPECT_THAT(file.notes, IsEmpty());
}

TEST(VgpuFile, ReadsTheFormWithSms) {
  const VgpuFile file = Read("1\nclient1 0.3 1.0 50 1073741824\n").value();
  ASSERT_EQ(file.vgpus.size(), 1u);
  EXPECT_THAT(file.notes, ElementsAre("SM% is read, and not enforced yet"));
}

TEST(GpuName, IsANumberOrAUuid) {
  EXPECT_EQ(FindGpu("1", kGpus.uuids).value(), 1u);
  EXPECT_EQ(FindGpu(GpuName(kGpus.uuids[1]), kGpus.uuids).value(), 1u);
  EXPECT_EQ(FindGpu("gpu-02020202-0202-0202-0202-020202020202", kGpus.uuids).value(), 1u);
  for (const char* bad : {"", "2", "01x", "-0", "GPU-", "GPU-02020202-0202-0202-0202-02020202020", "4294967296"}) {
    EXPECT_EQ(FindGpu(bad, kGpus.uuids).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace tessera
