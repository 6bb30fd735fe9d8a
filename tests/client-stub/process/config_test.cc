// What the environment means.
#include "client-stub/process/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <string>

#include "client-stub/process/compile_cache.h"
#include "client-stub/process/own_agent.h"
#include "client-stub/process/ticket_file.h"

namespace tessera {
namespace {

std::map<std::string, std::string> environment;

Config Parse(std::map<std::string, std::string> variables) {
  environment = std::move(variables);
  return ParseConfig([](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(Config, AnEmptyEnvironmentHasDefaults) {
  const Config config = Parse({});
  EXPECT_EQ(config.server, "");
  EXPECT_EQ(config.log_level, LogLevel::kWarning);
  EXPECT_EQ(config.stats, "");
  EXPECT_FALSE(config.launch_blocking);
  EXPECT_FALSE(config.eager_module_loading);
  EXPECT_EQ(config.visible_devices, "");
  EXPECT_THAT(config.forwarded_environment, testing::IsEmpty());
}

TEST(Config, ReadsItsOwnVariables) {
  const Config config = Parse({{"TESSERA_SERVER", "unix:/run/x"}, {"TESSERA_LOG", "debug"}, {"TESSERA_STATS", "/tmp/s.json"}});
  EXPECT_EQ(config.server, "unix:/run/x");
  EXPECT_EQ(config.log_level, LogLevel::kDebug);
  EXPECT_EQ(config.stats, "/tmp/s.json");
  EXPECT_EQ(config.wait_ms, UINT32_MAX);
  EXPECT_EQ(Parse({{"TESSERA_WAIT_MS", "1500"}}).wait_ms, 1'500U);
  EXPECT_EQ(Parse({{"TESSERA_WAIT_MS", "99999999999999999999"}}).wait_ms, UINT32_MAX);
  EXPECT_EQ(Parse({{"TESSERA_WAIT_MS", "-1"}}).wait_ms, UINT32_MAX);
  EXPECT_EQ(config.run_begun_ns, 0U);
  EXPECT_EQ(Parse({{"TESSERA_RUN_BEGUN", "1764000000000000000"}}).run_begun_ns, 1764000000000000000U);
  EXPECT_EQ(Parse({{"TESSERA_RUN_BEGUN", "noon"}}).run_begun_ns, 0U);
  EXPECT_EQ(Parse({{"TESSERA_LOG", "loud"}}).bad_log_level, "loud");
  EXPECT_EQ(Parse({{"TESSERA_LOG", "loud"}}).log_level, LogLevel::kWarning);
  EXPECT_EQ(Parse({{"TESSERA_STATS", "0"}}).stats, "");
}

TEST(Config, CompilersKeepResultsWhereTheDriverWould) {
  EXPECT_EQ(Parse({}).compile_cache_directory, "");
  EXPECT_EQ(Parse({{"HOME", "/home/u"}}).compile_cache_directory, "/home/u/.nv/ComputeCache/tessera");
  EXPECT_EQ(Parse({{"HOME", "/home/u"}, {"CUDA_CACHE_PATH", "/c"}}).compile_cache_directory, "/c/tessera");
  EXPECT_EQ(Parse({{"HOME", "/home/u"}, {"CUDA_CACHE_DISABLE", "1"}}).compile_cache_directory, "");
  EXPECT_EQ(Parse({}).compile_cache_bytes_max, CompileCache::kDefaultBytesMax);
  EXPECT_EQ(Parse({{"CUDA_CACHE_MAXSIZE", "5000"}}).compile_cache_bytes_max, 5000u);
}

TEST(Config, LaunchesBlockOnEitherVariable) {
  EXPECT_TRUE(Parse({{"CUDA_LAUNCH_BLOCKING", "1"}}).launch_blocking);
  EXPECT_TRUE(Parse({{"TESSERA_LAUNCH_BLOCKING", "1"}}).launch_blocking);
  EXPECT_FALSE(Parse({{"CUDA_LAUNCH_BLOCKING", "0"}}).launch_blocking);
  EXPECT_FALSE(Parse({{"CUDA_LAUNCH_BLOCKING", ""}}).launch_blocking);
}

TEST(Config, AnEmptyDeviceListMeansNoDevice) {
  EXPECT_EQ(Parse({{"CUDA_VISIBLE_DEVICES", ""}}).visible_devices, "-1");
  EXPECT_EQ(Parse({{"CUDA_VISIBLE_DEVICES", "1,GPU-abc"}}).visible_devices, "1,GPU-abc");
}

TEST(Config, ForwardsWhatTheDriverReads) {
  const Config config = Parse({{"CUDA_MODULE_LOADING", "EAGER"},
                               {"CUDA_DEVICE_MAX_CONNECTIONS", "1"},
                               {"CUDA_CACHE_PATH", "/c"},
                               {"CUDA_VISIBLE_DEVICES", "0"},
                               {"LD_PRELOAD", "x"}});
  EXPECT_TRUE(config.eager_module_loading);
  EXPECT_THAT(config.forwarded_environment,
              testing::UnorderedElementsAre("CUDA_MODULE_LOADING=EAGER", "CUDA_DEVICE_MAX_CONNECTIONS=1", "CUDA_CACHE_PATH=/c"));
}

TEST(OwnAgent, IsForTheProcessItselfWhereNoAncestorHasTheVariable) {
  EXPECT_EQ(OutermostWith(getpid(), "TESSERA_SERVER=tls://nowhere.invalid:1"), getpid());
}

TEST(ServerAddress, IsAUnixPathOrAnotherHost) {
  EXPECT_EQ(ParseServerAddress("unix:/run/t.sock").unix_path, "/run/t.sock");
  EXPECT_EQ(ParseServerAddress("unix:/run/t.sock").error, "");
  for (const char* url : {"tcp://host:1", "tls://host:1", "ucx://host:1"}) {
    EXPECT_EQ(ParseServerAddress(url).other_host, url);
    EXPECT_EQ(ParseServerAddress(url).unix_path + ParseServerAddress(url).error, "");
  }
  EXPECT_EQ(ParseServerAddress("/run/a:b.sock").unix_path, "/run/a:b.sock");
  EXPECT_EQ(ParseServerAddress("/run/t.sock").error, "");
  EXPECT_THAT(ParseServerAddress("t.sock").error, testing::HasSubstr("no known scheme"));
  EXPECT_THAT(ParseServerAddress("http:x").error, testing::HasSubstr("no known scheme"));
  EXPECT_THAT(ParseServerAddress("unix:").error, testing::HasSubstr("names no socket"));
  EXPECT_THAT(ParseServerAddress("unix:" + std::string(200, 'x')).error, testing::HasSubstr("200 bytes"));
}

TEST(ServerList, HasEachServerOnce) {
  const ServerList list = ParseServerList("unix:/a,unix:/b", "", "");
  ASSERT_EQ(list.error, "");
  ASSERT_EQ(list.servers.size(), 2u);
  EXPECT_EQ(list.servers[1].unix_path, "/b");
  EXPECT_EQ(list.servers[1].name, "unix:/b");
  EXPECT_EQ(ParseServerList("unix:/a,unix:/b", "tcp://x:1,unix:/b", "").servers[0].name, "tcp://x:1");
  EXPECT_EQ(ParseServerList("unix:/a,unix:/b", "tcp://x:1", "").servers[0].name, "unix:/a");  // names of another list
  EXPECT_EQ(ParseServerList("tls://a:1,tls://b:1", "", "").servers.size(), 2u);
  EXPECT_THAT(ParseServerList("tls://a:1,tls://a:1", "", "").error, testing::HasSubstr("twice"));
  for (const char* bad : {"unix:/a,", ",unix:/a", "unix:/a,,unix:/b"}) {
    EXPECT_THAT(ParseServerList(bad, "", "").error, testing::HasSubstr("empty entry")) << bad;
    EXPECT_TRUE(ParseServerList(bad, "", "").servers.empty());
  }
  EXPECT_THAT(ParseServerList("unix:/a,unix:/a", "", "").error, testing::HasSubstr("twice"));
  EXPECT_THAT(ParseServerList("unix:/a,ftp:b", "", "").error, testing::HasSubstr("ftp:b has no known scheme"));
  EXPECT_THAT(ParseServerList("unix:1,unix:2,unix:3,unix:4,unix:5,unix:6,unix:7,unix:8,unix:9", "", "").error,
              testing::HasSubstr("at most 8"));
}

TEST(ServerList, HasATicketForEachServer) {
  const ServerList list = ParseServerList("unix:/a,unix:/b", "", "", "/tickets/0,");
  ASSERT_EQ(list.servers.size(), 2u);
  EXPECT_EQ(list.servers[0].ticket_file, "/tickets/0");
  EXPECT_EQ(list.servers[1].ticket_file, "");
  EXPECT_THAT(ParseServerList("unix:/a,unix:/b", "", "", "/tickets/0").error, testing::HasSubstr("tickets for 1 servers"));
  EXPECT_EQ(Parse({{"TESSERA_TICKET", "/tickets/0"}}).tickets, "/tickets/0");
}

TEST(TicketFile, IsReadAsItIsNow) {
  const std::string path = testing::TempDir() + "ticket";
  EXPECT_TRUE(ReadTicket("").value().empty());
  EXPECT_THAT(ReadTicket(path + "-none").status().message(), testing::HasSubstr("TESSERA_TICKET"));
  for (const std::string& text : {std::string("one"), std::string(4096, 'x')}) {
    std::ofstream(path) << text;
    EXPECT_EQ(ReadTicket(path).value().size(), text.size());
  }
  std::ofstream(path) << std::string(4097, 'x');
  EXPECT_FALSE(ReadTicket(path).ok());
}

}  // namespace
}  // namespace tessera
