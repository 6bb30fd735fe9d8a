#include "server/broker/vgpu_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

FileVgpu Named(const std::string& name, double request = 0.1, size_t line = 0, uint32_t gpu = 0) {
  return {.spec = {.name = name, .request = request}, .gpu = gpu, .line = line};
}

std::vector<std::string> NamesOf(const std::vector<FileVgpu>& vgpus) {
  std::vector<std::string> names;
  for (const FileVgpu& vgpu : vgpus) names.push_back(vgpu.spec.name);
  return names;
}

VgpuBook BookOf(const std::vector<FileVgpu>& of_file, const std::vector<FileVgpu>& of_api) {
  VgpuBook book = VgpuBook().WithFile(of_file).value();
  for (const FileVgpu& vgpu : of_api) book = book.With(vgpu).value();
  return book;
}

TEST(VgpuBook, AFileLeavesAloneWhatTheApiMade) {
  const VgpuBook book = BookOf({Named("a"), Named("b")}, {Named("mine")});
  const VgpuBook next = book.WithFile(std::vector{Named("b"), Named("c")}).value();
  EXPECT_EQ(next.Find("a"), nullptr);
  EXPECT_EQ(next.Find("c")->made_by, MadeBy::kFile);
  ASSERT_NE(next.Find("mine"), nullptr);
  EXPECT_EQ(next.Find("mine")->made_by, MadeBy::kApi);
  EXPECT_EQ(next.Find("mine")->revision, book.Find("mine")->revision);
}

TEST(VgpuBook, AFileCannotTakeANameOfTheApi) {
  const Status status = BookOf({}, {Named("mine")}).WithFile(std::vector{Named("a", 0.1, 2), Named("mine", 0.1, 7)}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), StartsWith("line 7: vGPU 'mine' was made by the API"));
}

TEST(VgpuBook, TheApiCannotChangeWhatTheFileMade) {
  const VgpuBook book = BookOf({Named("a")}, {});
  for (const Status& status : {book.With(Named("a", 0.2)).status(), book.Without("a").status()}) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("vGPU 'a' was made by the file"));
  }
  EXPECT_EQ(book.Without("b").status().code(), StatusCode::kNotFound);
}

TEST(VgpuBook, SeveralOfTheApiComeAtOnceOrNot) {
  const VgpuBook book = BookOf({Named("a")}, {});
  const VgpuBook next = book.With(std::vector{Named("b"), Named("c")}).value();
  EXPECT_EQ(next.Find("b")->made_by, MadeBy::kApi);
  EXPECT_GT(next.Find("c")->revision, next.Find("b")->revision);
  EXPECT_FALSE(book.With(std::vector{Named("b"), Named("a")}).ok());
  EXPECT_EQ(book.Find("b"), nullptr);
}

TEST(VgpuBook, ARevisionGrowsWithEachChangeAndIsNeverUsedAgain) {
  const VgpuBook first = BookOf({Named("a")}, {Named("mine", 0.1)});
  const VgpuBook second = first.With(Named("mine", 0.2)).value();
  EXPECT_GT(second.Find("mine")->revision, first.Find("mine")->revision);
  EXPECT_EQ(second.Find("a")->revision, first.Find("a")->revision);
  EXPECT_EQ(second.Find("mine")->spec.request, 0.2);
  const VgpuBook same = second.With(Named("mine", 0.2)).value();
  EXPECT_EQ(same.Find("mine")->revision, second.Find("mine")->revision);
  const VgpuBook again = same.Without("mine").value().With(Named("mine", 0.1)).value();
  EXPECT_GT(again.Find("mine")->revision, second.Find("mine")->revision);
  FileVgpu owned = Named("mine", 0.1);
  owned.owners = {"uid:7"};
  EXPECT_GT(again.With(owned).value().Find("mine")->revision, again.Find("mine")->revision);
}

TEST(VgpuBook, WhatAChangeIsAboutIsAdmittedLast) {
  const VgpuBook book = BookOf({Named("a"), Named("b", 0.1, 0, 1)}, {Named("c"), Named("d")});
  const std::vector<FileVgpu> changed = {Named("a", 0.3, 1), Named("b", 0.3, 2, 1)};
  const VgpuBook next = book.WithFile(changed).value();
  EXPECT_EQ(NamesOf(next.WantedOf(0, changed)), (std::vector<std::string>{"c", "d", "a"}));
  EXPECT_EQ(NamesOf(next.WantedOf(1, changed)), (std::vector<std::string>{"b"}));
  EXPECT_EQ(next.WantedOf(1, changed)[0].line, 2u);
  EXPECT_EQ(NamesOf(next.WantedOf(0, {})), (std::vector<std::string>{"a", "c", "d"}));
}

TEST(VgpuBook, AVgpuIsForItsOwnersOrForAll) {
  BookedVgpu vgpu;
  EXPECT_TRUE(vgpu.IsFor("uid:7"));
  vgpu.owners = {"uid:1", "name:x"};
  EXPECT_TRUE(vgpu.IsFor("name:x"));
  EXPECT_FALSE(vgpu.IsFor("uid:7"));
}

}  // namespace
}  // namespace tessera
