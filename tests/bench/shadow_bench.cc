// What shadows of registered memory could reach on this machine: DMA of pinned memory, the processor's copies beside it, and
// both on the same ring of places, as the product does (client-stub/transfers/copy_in_order.h), but in one process. A machine
// where the ring stays below 0.69 of DMA has no shadows that copy at T <= 1.45.
//
//   shadow_bench [--threads N,...] [--mib N,...] [--ways NAME,...] [--ring file|pinned] [--seconds S] [-o FILE]
//
// For an NVIDIA GPU, natively.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "client-stub/process/copier.h"
#include "tests/bench/copy_ways.h"
#include "tests/bench/shadow_measures.h"
#include "tests/support/sizes.h"

namespace tessera {
namespace {

constexpr char kUsage[] =
    R"(usage: shadow_bench [--threads N,...] [--mib N,...] [--ways NAME,...] [--ring file|pinned] [--seconds S] [-o FILE]
  --threads N,...  that copy, the caller included (the product's, half of the cores but at most 8; half and twice as many)
  --mib N,...      sizes of copies through the ring (1,16,64,256)
  --ways NAME,...  of copying (all); --ways list tells what they are
  --ring KIND      memory of the places: a memory file that is registered, as the product's (file), or of cuMemAllocHost (pinned)
  --seconds S      of each figure (0.1)
  -o FILE          the table as JSON too
Columns, GB/s: the processor's copies alone; copies and DMA at once, on different memory; copies through a ring of places, by size.
"of DMA" is the best of that row / DMA alone. The last lines compare with 0.69 of it.
)";

constexpr double kTarget = 0.69;

struct Options {
  std::vector<size_t> threads;
  std::vector<size_t> mib = {1, 16, 64, 256};
  std::vector<std::string> ways;
  bool pinned_ring = false;
  double seconds = 0.1;
  std::string file;
};

template <typename T>
std::vector<T> List(const char* words) {
  std::vector<T> list;
  std::istringstream text(words);
  for (std::string word; std::getline(text, word, ',');) {
    if constexpr (std::is_same_v<T, std::string>) {
      list.push_back(word);
    } else {
      list.push_back(std::max(1ul, std::strtoul(word.c_str(), nullptr, 10)));
    }
  }
  return list;
}

Options Read(int argc, char** argv) {
  Options options;
  const size_t half = std::clamp<size_t>(std::thread::hardware_concurrency() / 2, 2, Copier::kThreadsMax);
  options.threads = {half / 2, half, 2 * half};
  for (int i = 1; i < argc; i += 2) {
    const std::string word = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--threads") {
      options.threads = List<size_t>(value);
    } else if (word == "--mib") {
      options.mib = List<size_t>(value);
    } else if (word == "--ways") {
      options.ways = List<std::string>(value);
    } else if (word == "--ring") {
      options.pinned_ring = std::string(value) == "pinned";
    } else if (word == "--seconds") {
      options.seconds = std::atof(value);
    } else if (word == "-o") {
      options.file = value;
    } else {
      std::fputs(kUsage, word == "--help" ? stdout : stderr);
      std::exit(word == "--help" ? 0 : 2);
    }
  }
  if (options.threads.empty() || options.mib.empty()) std::fputs(kUsage, stderr), std::exit(2);
  return options;
}

int Main(int argc, char** argv) {
  const Options options = Read(argc, argv);
  std::vector<CopyWay> ways = CopyWays();
  if (options.ways == std::vector<std::string>{"list"}) {
    for (const CopyWay& way : ways) std::printf("%-8s %s\n", way.name, way.what);
    return 0;
  }
  std::erase_if(ways, [&](const CopyWay& way) {
    return !options.ways.empty() && std::find(options.ways.begin(), options.ways.end(), way.name) == options.ways.end();
  });
  const size_t largest = *std::max_element(options.mib.begin(), options.mib.end());
  ShadowMeasures measures(largest * kMiB, options.pinned_ring, options.seconds);
  nlohmann::json json;
  std::string verdicts;
  for (const bool to_device : {true, false}) {
    const char* const direction = to_device ? "to_device" : "from_device";
    std::printf("%s, GB/s\n%-8s %7s %7s %8s %7s", direction, "way", "threads", "alone", "beside", "DMA");
    for (const size_t mib : options.mib) std::printf(" %5zu MiB", mib);
    std::printf(" %7s\n%-8s %7s %7s %8s %7s", "of DMA", "DMA", "", "", "", "");
    std::vector<double> dma, best(options.mib.size());
    for (const size_t mib : options.mib) {
      dma.push_back(measures.Dma(to_device, mib * kMiB));
      std::printf(" %9.1f", dma.back());
      json[direction]["dma"][std::to_string(mib)] = dma.back();
    }
    std::printf("\n");
    for (const size_t threads : options.threads) {
      Copier copier(threads);
      for (const CopyWay& way : ways) {
        double beside_dma = 0, of_dma = 0;
        const double alone = measures.Copies(to_device, copier, way);
        const double beside = measures.Beside(to_device, copier, way, &beside_dma);
        std::printf("%-8s %7zu %7.1f %8.1f %7.1f", way.name, threads, alone, beside, beside_dma);
        auto& row = json[direction][way.name][std::to_string(threads)];
        row = {{"alone", alone}, {"beside", beside}, {"dma_beside", beside_dma}};
        for (size_t i = 0; i < dma.size(); ++i) {
          const double ring = measures.Ring(to_device, copier, way, options.mib[i] * kMiB);
          std::printf(" %9.1f", ring);
          row["ring"][std::to_string(options.mib[i])] = ring;
          best[i] = std::max(best[i], ring / dma[i]);
          of_dma = std::max(of_dma, ring / dma[i]);
        }
        std::printf(" %7.2f\n", of_dma);
        std::fflush(stdout);
      }
    }
    for (size_t i = 0; i < dma.size(); ++i) {
      char line[128];
      std::snprintf(line, sizeof(line), "%-11s %4zu MiB: the best ring is %.2f of DMA, %s %.2f\n", direction, options.mib[i],
                    best[i], best[i] < kTarget ? "below" : "at least", kTarget);
      verdicts += line;
      json[direction]["best_of_dma"][std::to_string(options.mib[i])] = best[i];
    }
  }
  std::printf("%s", verdicts.c_str());
  if (!options.file.empty()) std::ofstream(options.file) << json.dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::Main(argc, argv); }
