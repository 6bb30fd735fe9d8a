// Every form of image, whole, truncated and damaged.
#include "server/code_image/image.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

namespace tessera::code_image {
namespace {

using Part = std::span<const std::byte>;

std::string Load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
std::string Sample(const std::string& name) {
  std::string bytes = Load(std::string(TESSERA_TEST_IMAGE_DIR) + "/" + name);
  EXPECT_FALSE(bytes.empty()) << name;
  return bytes;
}
Part AsPart(const std::string& bytes) { return std::as_bytes(std::span(bytes.data(), bytes.size())); }

void ExpectKernels(const std::vector<CubinKernel>& kernels) {
  ASSERT_EQ(kernels.size(), 2u);
  const CubinKernel& scale = kernels[0].name == "scale" ? kernels[0] : kernels[1];
  const CubinKernel& count = kernels[0].name == "scale" ? kernels[1] : kernels[0];
  ASSERT_EQ(scale.name, "scale");
  ASSERT_EQ(count.name, "count");
  ASSERT_EQ(scale.parameters.size(), 3u);
  EXPECT_EQ(scale.parameters[0].offset_bytes, 0u);
  EXPECT_EQ(scale.parameters[0].size_bytes, 8u);
  EXPECT_EQ(scale.parameters[1].offset_bytes, 8u);
  EXPECT_EQ(scale.parameters[1].size_bytes, 4u);
  EXPECT_EQ(scale.parameters[2].offset_bytes, 16u);
  EXPECT_EQ(scale.parameters[2].size_bytes, 16u);
  EXPECT_EQ(scale.static_shared_bytes, 256u);
  EXPECT_GT(scale.register_count, 4u);
  EXPECT_EQ(count.parameters.size(), 1u);
  EXPECT_EQ(count.max_threads_per_block, 128u);
}

class EveryCompression : public testing::TestWithParam<const char*> {};

TEST_P(EveryCompression, HoldsPtxAndCubin) {
  const std::string bytes = Sample(GetParam());
  Result<Image> image = DecodeImage({AsPart(bytes)});
  ASSERT_TRUE(image.ok()) << image.status().message();
  ASSERT_EQ(image->ptx.size(), 1u);
  EXPECT_EQ(image->ptx[0].sm, 90u);
  EXPECT_NE(image->ptx[0].text.find(".entry scale"), std::string::npos);
  ASSERT_EQ(image->cubins.size(), 1u);
  EXPECT_EQ(image->cubins[0].sm, 90u);
  ExpectKernels(image->cubins[0].kernels);
  ASSERT_EQ(image->cubins[0].variables.size(), 2u);
  EXPECT_EQ(image->cubins[0].variables[0].name, "counter");
  EXPECT_EQ(image->cubins[0].variables[0].size_bytes, 4u);
  EXPECT_EQ(image->cubins[0].variables[1].name, "weights");
  EXPECT_EQ(image->cubins[0].variables[1].size_bytes, 20u);
  EXPECT_TRUE(image->cubins[0].variables[1].is_const);
  Result<Selection> selection = SelectImage(*image, 90);
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->ptx_texts.size(), 1u);
  EXPECT_EQ(PartSize(AsPart(bytes)).value(), bytes.size());
}

TEST_P(EveryCompression, TruncatedPrefixIsAnError) {
  const std::string bytes = Sample(GetParam());
  for (size_t n = 0; n < bytes.size(); ++n) {
    // Copied, so that reading past the end is seen by the sanitizer.
    const std::string prefix(bytes.data(), n);
    EXPECT_FALSE(DecodeImage({AsPart(prefix)}).ok()) << n;
  }
}

TEST_P(EveryCompression, DamagedBytesDoNotCrash) {
  const std::string bytes = Sample(GetParam());
  std::mt19937_64 random(7);
  for (int round = 0; round < 4000; ++round) {
    std::string damaged = bytes;
    // Mostly in headers and tables, where a wrong number hurts.
    for (int i = 0; i < 1 + round % 3; ++i) {
      const size_t at = random() % (round % 2 == 0 ? std::min<size_t>(damaged.size(), 200) : damaged.size());
      damaged[at] = static_cast<char>(random());
    }
    Result<Image> image = DecodeImage({AsPart(damaged)});
    if (image.ok()) (void)SelectImage(*image, 90).ok();
  }
}

INSTANTIATE_TEST_SUITE_P(Files, EveryCompression,
                         testing::Values("default.fatbin", "size.fatbin", "speed.fatbin", "none.fatbin"));

TEST(Image, ChoosesTheHighestPtxThatFits) {
  const std::string bytes = Sample("many.fatbin");
  Result<Image> image = DecodeImage({AsPart(bytes)});
  ASSERT_TRUE(image.ok()) << image.status().message();
  ASSERT_EQ(image->ptx.size(), 4u);
  auto target = [&](uint32_t sm) {
    Result<Selection> selection = SelectImage(*image, sm);
    EXPECT_TRUE(selection.ok());
    const std::string& text = selection->ptx_texts.at(0);
    const size_t at = text.find("sm_");
    return text.substr(at, text.find_first_of(" \n", at) - at);
  };
  EXPECT_EQ(target(90), "sm_90a");
  EXPECT_EQ(target(89), "sm_75");
  EXPECT_EQ(target(103), "sm_100");
  Result<Selection> none = SelectImage(*image, 70);
  EXPECT_EQ(none.status().code(), StatusCode::kNotFound);
  EXPECT_NE(none.status().message().find("compute_90a"), std::string::npos);
}

TEST(Image, NamesMachineCodeOfOtherArchitecturesWithoutUnpackingIt) {
  const std::string bytes = Sample("size.fatbin");
  Result<Image> whole = DecodeImage({AsPart(bytes)}), foreign = DecodeImage({AsPart(bytes)}, 10);
  ASSERT_TRUE(whole.ok() && foreign.ok());
  ASSERT_FALSE(whole->cubins.empty());
  ASSERT_EQ(foreign->cubins.size(), whole->cubins.size());
  for (size_t i = 0; i < whole->cubins.size(); ++i) {
    const CubinEntry& unpacked = whole->cubins[i];
    EXPECT_FALSE(unpacked.kernels.empty());
    EXPECT_EQ(foreign->cubins[i].sm, unpacked.sm);
    EXPECT_TRUE(foreign->cubins[i].kernels.empty());
    Result<Image> own = DecodeImage({AsPart(bytes)}, unpacked.sm);
    ASSERT_TRUE(own.ok());
    EXPECT_EQ(own->cubins[i].kernels.size(), unpacked.kernels.size());
  }
  ASSERT_EQ(foreign->ptx.size(), whole->ptx.size());
  for (size_t i = 0; i < whole->ptx.size(); ++i) {
    EXPECT_EQ(foreign->ptx[i].sm, whole->ptx[i].sm);
    EXPECT_FALSE(whole->ptx[i].text.empty());
    EXPECT_TRUE(foreign->ptx[i].text.empty());
  }
}

TEST(Image, LinksThePtxOfSeveralParts) {
  const std::string cubin = Sample("sample.cubin"), first = Sample("size.fatbin"), second = Sample("speed.fatbin");
  Result<Image> image = DecodeImage({AsPart(cubin), AsPart(first), AsPart(second)});
  ASSERT_TRUE(image.ok()) << image.status().message();
  Result<Selection> selection = SelectImage(*image, 90);
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->ptx_texts.size(), 2u);
  EXPECT_TRUE(selection->kernels.empty());
}

TEST(Image, CubinAloneGivesNamesAndLayouts) {
  const std::string bytes = Sample("sample.cubin");
  Result<Image> image = DecodeImage({AsPart(bytes)});
  ASSERT_TRUE(image.ok()) << image.status().message();
  Result<Selection> selection = SelectImage(*image, 90);
  ASSERT_TRUE(selection.ok());
  EXPECT_TRUE(selection->ptx_texts.empty());
  ExpectKernels(selection->kernels);
  EXPECT_FALSE(SelectImage(*image, 80).ok());
  EXPECT_EQ(PartSize(AsPart(bytes)).value(), bytes.size());
  for (size_t n = 0; n < bytes.size(); ++n) {
    const std::string prefix(bytes.data(), n);
    EXPECT_FALSE(DecodeImage({AsPart(prefix)}).ok() && PartSize(AsPart(prefix)).ok() &&
                 PartSize(AsPart(prefix)).value() == bytes.size())
        << n;
  }
  std::mt19937_64 random(11);
  for (int round = 0; round < 6000; ++round) {
    std::string damaged = bytes;
    const size_t header = random() % 4 == 0 ? 64 : damaged.size();
    damaged[random() % header] = static_cast<char>(random());
    damaged[0x1248 + random() % (24 * 64)] = static_cast<char>(random());
    (void)DecodeImage({AsPart(damaged)}).ok();
    (void)PartSize(AsPart(damaged)).ok();
  }
}

TEST(Image, PtxText) {
  const std::string bytes = Sample("sample.ptx");
  Result<Image> image = DecodeImage({AsPart(bytes)});
  ASSERT_TRUE(image.ok()) << image.status().message();
  ASSERT_EQ(image->ptx.size(), 1u);
  EXPECT_EQ(image->ptx[0].sm, 90u);
  const std::string with_rest = bytes + std::string("\0garbage", 8);
  EXPECT_EQ(PartSize(AsPart(with_rest)).value(), bytes.size());
  Result<Image> cut = DecodeImage({AsPart(with_rest)});
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->ptx[0].text, bytes);
}

TEST(Image, OnlyTheFirstOfSeveralFatbinsCounts) {
  const std::string first = Sample("default.fatbin"), both = first + Sample("many.fatbin");
  EXPECT_EQ(PartSize(AsPart(both)).value(), first.size());
  Result<Image> image = DecodeImage({AsPart(both)});
  ASSERT_TRUE(image.ok());
  EXPECT_EQ(image->ptx.size(), 1u);
  const std::string empty = first.substr(0, 8) + std::string(8, '\0');
  Result<Image> nothing = DecodeImage({AsPart(empty)});
  ASSERT_TRUE(nothing.ok());
  EXPECT_TRUE(SelectImage(*nothing, 90).ok());
}

TEST(Image, RefusesWhatIsNoImage) {
  EXPECT_FALSE(DecodeImage({AsPart(std::string("hello"))}).ok());
  EXPECT_FALSE(DecodeImage({AsPart(std::string())}).ok());
  const uint32_t wrapper[6] = {kWrapperMagic, 1};
  EXPECT_FALSE(DecodeImage({std::as_bytes(std::span(wrapper))}).ok());
}

TEST(Image, BoundsWhatItUnpacks) {
  std::string bytes = Sample("size.fatbin");
  const uint64_t huge = kMaxDecompressedBytes + 1;
  std::memcpy(bytes.data() + 16 + 56, &huge, 8);
  EXPECT_EQ(DecodeImage({AsPart(bytes)}).status().code(), StatusCode::kResourceExhausted);
}

// A library of the toolkit, where there is one: fatbins as they are shipped.
TEST(Image, ShippedLibrary) {
  const std::string file = Load("/usr/local/cuda/lib64/libcurand.so.10");
  if (file.empty()) GTEST_SKIP() << "libcurand.so.10 is not installed";
  Elf64_Ehdr header;
  std::memcpy(&header, file.data(), sizeof(header));
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  std::memcpy(sections.data(), file.data() + header.e_shoff, sections.size() * sizeof(Elf64_Shdr));
  const char* names = file.data() + sections[header.e_shstrndx].sh_offset;
  size_t fatbins = 0, kernels = 0;
  for (const Elf64_Shdr& section : sections) {
    if (std::strcmp(names + section.sh_name, ".nv_fatbin") != 0) continue;
    for (uint64_t at = section.sh_offset; at + 16 <= section.sh_offset + section.sh_size;) {
      const Part rest = AsPart(file).subspan(at, section.sh_offset + section.sh_size - at);
      Result<uint64_t> size = PartSize(rest);
      if (!size.ok()) break;
      Result<Image> image = DecodeImage({rest});
      ASSERT_TRUE(image.ok()) << image.status().message();
      ++fatbins;
      for (const CubinEntry& cubin : image->cubins) kernels += cubin.kernels.size();
      at += (*size + 7) / 8 * 8;
    }
  }
  EXPECT_GT(fatbins, 0u);
  EXPECT_GT(kernels, 0u);
}

}  // namespace
}  // namespace tessera::code_image
