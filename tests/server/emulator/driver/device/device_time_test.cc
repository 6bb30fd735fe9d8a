// Several processes on one device, each played by a DeviceTime of its own slot. What they got is told by the page, not by clocks:
// a busy machine changes nothing.
#include "server/emulator/driver/device/device_time.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "protocol/base/clock.h"

namespace tessera::emulator {
namespace {

constexpr uint64_t kMs = 1'000'000;

void SleepMs(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

class DeviceTimeTest : public testing::Test {
 protected:
  // A process with kernels of this length, one after the other, until the test ends.
  struct Tenant {
    Tenant(DevicePage& page, uint32_t slot, uint64_t kernel_ns)
        : time(page.devices[0], page.slots_end, slot), thread([this, kernel_ns] {
            time.Join();
            while (!stop) time.Occupy(kernel_ns, &stop);
            time.Leave();
          }) {}
    ~Tenant() {
      stop = true;
      thread.join();
    }
    std::atomic<bool> stop{false};
    DeviceTime time;
    std::thread thread;
  };

  DeviceTimeTest() { page_->slots_end = 8; }
  void Start(uint32_t slot, uint64_t kernel_ns) { tenants_.push_back(std::make_unique<Tenant>(*page_, slot, kernel_ns)); }
  uint64_t BusyNs(uint32_t slot) const { return page_->devices[0].slots[slot].busy_ns; }
  void AwaitBusy(uint32_t slot, uint64_t ns) const {
    const uint64_t deadline_ns = MonotonicNs() + 20'000 * kMs;
    while (BusyNs(slot) < ns && MonotonicNs() < deadline_ns) SleepMs(1);
    EXPECT_GE(BusyNs(slot), ns);
  }
  // What each of these slots gets until the first has got so much.
  std::vector<double> Shares(const std::vector<uint32_t>& slots, uint64_t ns) {
    for (const uint32_t slot : slots) AwaitBusy(slot, kMs);
    std::vector<double> before;
    for (const uint32_t slot : slots) before.push_back(static_cast<double>(BusyNs(slot)));
    AwaitBusy(slots[0], static_cast<uint64_t>(before[0]) + ns);
    std::vector<double> got;
    for (size_t i = 0; i < slots.size(); ++i) got.push_back(static_cast<double>(BusyNs(slots[i])) - before[i]);
    return got;
  }

  std::unique_ptr<DevicePage> page_ = std::make_unique<DevicePage>();
  std::vector<std::unique_ptr<Tenant>> tenants_;
};

TEST_F(DeviceTimeTest, OneAloneHasAllAndIsCountedExactly) {
  DeviceTime time(page_->devices[0], page_->slots_end, 3);
  time.Join();
  const uint64_t begin_ns = MonotonicNs();
  for (int i = 0; i < 40; ++i) time.Occupy(777'777, nullptr);
  const uint64_t took_ns = MonotonicNs() - begin_ns;
  time.Leave();
  EXPECT_EQ(BusyNs(3), 40u * 777'777u);
  EXPECT_GE(took_ns, BusyNs(3));
  EXPECT_EQ(page_->devices[0].turn, 0u) << "it keeps a device that it does not use";
}

TEST_F(DeviceTimeTest, ManyShortKernelsGetAsMuchAsFewLongOnes) {
  Start(0, kMs / 5);
  Start(1, 7 * kMs);
  Start(2, 50 * kMs);
  // In one window of several: who gets no processor for a while loses turns meanwhile.
  for (int window = 0; window < 5; ++window) {
    const std::vector<double> got = Shares({0, 1, 2}, 300 * kMs);
    if (std::abs(got[1] / got[0] - 1) < 0.05 && std::abs(got[2] / got[0] - 1) < 0.05) return;
  }
  ADD_FAILURE() << "unequal device times in each of five windows";
}

TEST_F(DeviceTimeTest, NobodyGetsTimeThatAnotherHas) {
  const uint64_t begin_ns = MonotonicNs();
  for (uint32_t slot = 0; slot < 6; ++slot) Start(slot, (slot + 1) * kMs);
  AwaitBusy(0, 50 * kMs);
  tenants_.clear();
  const uint64_t passed_ns = MonotonicNs() - begin_ns;
  uint64_t sum_ns = 0;
  for (uint32_t slot = 0; slot < 6; ++slot) sum_ns += BusyNs(slot);
  EXPECT_LE(sum_ns, passed_ns);
}

TEST_F(DeviceTimeTest, StreamsOfOneProcessOccupyTheDeviceInTurns) {
  DeviceTime time(page_->devices[0], page_->slots_end, 0);
  const uint64_t begin_ns = MonotonicNs();
  std::vector<std::thread> streams;
  for (int i = 0; i < 4; ++i) {
    streams.emplace_back([&time] {
      time.Join();
      for (int kernel = 0; kernel < 5; ++kernel) time.Occupy(3 * kMs, nullptr);
      time.Leave();
    });
  }
  for (std::thread& stream : streams) stream.join();
  EXPECT_EQ(BusyNs(0), 60 * kMs);
  EXPECT_GE(MonotonicNs() - begin_ns, 60 * kMs);
}

TEST_F(DeviceTimeTest, AStreamGetsNoTimeFromBeforeItCame) {
  DeviceTime time(page_->devices[0], page_->slots_end, 0);
  time.Join();  // another stream, which has nothing to do any more and has not left
  time.Occupy(kMs, nullptr);
  SleepMs(5);
  const uint64_t begin_ns = MonotonicNs();
  time.Join();
  time.Occupy(10 * kMs, nullptr);
  EXPECT_GE(MonotonicNs() - begin_ns, 10 * kMs);
  time.Leave();
  time.Leave();
}

TEST_F(DeviceTimeTest, ASliceThatNobodyEndsIsTakenAway) {
  // The process of slot 5 stopped in its slice, and would have had more.
  page_->devices[0].slots[5].wants = 1;
  page_->devices[0].turn = DeviceTurn{5, MonotonicNs() / 1000 + kDeviceSliceUs}.word();
  const uint64_t begin_ns = MonotonicNs();
  DeviceTime time(page_->devices[0], page_->slots_end, 0);
  time.Join();
  time.Occupy(50 * kMs, nullptr);
  time.Leave();
  EXPECT_EQ(BusyNs(0), 50 * kMs);
  EXPECT_GE(MonotonicNs() - begin_ns, 50 * kMs + DeviceRound::kGraceUs * 1000);
  EXPECT_EQ(page_->devices[0].slots[5].wants, 0u) << "it would stop the device again with each of its turns";
}

TEST_F(DeviceTimeTest, OneWhoseSliceWasTakenAwayKeepsWhatIsLeftOfIt) {
  DeviceTime time(page_->devices[0], page_->slots_end, 0);
  time.Join();
  time.Occupy(kMs, nullptr);
  const uint64_t of_another = DeviceTurn{5, MonotonicNs() / 1000 + 60 * kDeviceSliceUs}.word();
  page_->devices[0].turn = of_another;
  page_->devices[0].slots[0].wants = 0;
  time.Occupy(kMs / 2, nullptr);
  EXPECT_EQ(page_->devices[0].turn, of_another) << "it has waited for a slice of its own";
  EXPECT_EQ(BusyNs(0), kMs + kMs / 2);
  EXPECT_EQ(page_->devices[0].slots[0].wants, 1u);
  time.Leave();
}

TEST_F(DeviceTimeTest, ATurnThatComesTooLateIsHandedOn) {
  DeviceTime time(page_->devices[0], page_->slots_end, 0);
  time.Join();
  page_->devices[0].turn = DeviceTurn{0, MonotonicNs() / 1000 + kDeviceSliceUs}.word();
  time.Leave();
  EXPECT_EQ(page_->devices[0].turn, 0u);
}

TEST_F(DeviceTimeTest, AnythingInThePageKeepsNobodyFromTheDevice) {
  Start(0, kMs);
  Start(1, kMs);
  for (uint64_t word = 1, i = 0; i < 40; ++i, word = word * 6364136223846793005 + 1442695040888963407) {
    page_->devices[0].turn = word;
    page_->devices[0].slots[i % 8].wants = static_cast<uint32_t>(word >> 32);
    page_->slots_end = static_cast<uint32_t>(word >> 16);
    SleepMs(3);
  }
  page_->slots_end = 8;
  AwaitBusy(0, BusyNs(0) + 20 * kMs);
  AwaitBusy(1, BusyNs(1) + 20 * kMs);
}

TEST_F(DeviceTimeTest, InterpretingCountsForAsLongAsItTakes) {
  DeviceTime time(page_->devices[0], page_->slots_end, 0);
  time.Join();
  const uint64_t begin_ns = MonotonicNs();
  {
    DeviceTime::Body body(time, nullptr);
    while (MonotonicNs() < begin_ns + 30 * kMs) body.Await();
  }
  const uint64_t took_ns = MonotonicNs() - begin_ns;
  time.Leave();
  EXPECT_LE(BusyNs(0), took_ns);
  EXPECT_GE(BusyNs(0), 29 * kMs);
}

TEST_F(DeviceTimeTest, NoTimeIsLostOrCountedTwiceWhenBothKindsRun) {
  DeviceTime time(page_->devices[0], page_->slots_end, 0);
  const uint64_t begin_ns = MonotonicNs();
  std::thread stream([&time] {
    time.Join();
    time.Occupy(30 * kMs, nullptr);
    time.Leave();
  });
  for (int i = 0; i < 8; ++i) {
    SleepMs(3);
    time.Join();
    {
      DeviceTime::Body body(time, nullptr);
      body.Await();
    }
    time.Leave();
  }
  stream.join();
  EXPECT_GE(BusyNs(0), 30 * kMs);
  EXPECT_LE(BusyNs(0), MonotonicNs() - begin_ns);
  EXPECT_EQ(page_->devices[0].slots[0].running, 0u);
}

TEST_F(DeviceTimeTest, InterpretingSharesTheDevice) {
  Start(1, 10 * kMs);
  DeviceTime time(page_->devices[0], page_->slots_end, 0);
  time.Join();
  {
    DeviceTime::Body body(time, nullptr);
    AwaitBusy(1, 4 * kMs);
    const uint64_t before_ns = BusyNs(1), deadline_ns = MonotonicNs() + 20'000 * kMs;
    while ((BusyNs(0) < 40 * kMs || BusyNs(1) < before_ns + 20 * kMs) && MonotonicNs() < deadline_ns) body.Await();
    EXPECT_GE(BusyNs(0), 40 * kMs);
    EXPECT_GE(BusyNs(1), before_ns + 20 * kMs);
  }
  time.Leave();
}

}  // namespace
}  // namespace tessera::emulator
