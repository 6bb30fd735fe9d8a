#include "netaware/job/job_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tessera {
namespace {

using testing::HasSubstr;

class JobConfigTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/job_config_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
    for (const char* variable : {"TESSERA_PLACER", "TESSERA_CERTIFICATE", "TESSERA_KEY", "TESSERA_AUTHORITY"}) unsetenv(variable);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string File(const std::string& name, const std::string& text) {
    std::ofstream(directory_ + "/" + name) << text;
    return directory_ + "/" + name;
  }

  std::string directory_;
};

TEST_F(JobConfigTest, OptionThenEnvironmentThenUserThenHost) {
  const std::string user = File("user", "placer = 'unix:/user'\ngpu-share = 0.5\nsame-server = false\nkey = '/user/key'\n");
  const std::string host =
      File("host",
           "placer = 'unix:/host'\ngpu-share = 0.25\nsame-server = true\ngpus = 2\nprocesses = 9\ngpu-mem = '3G'\n"
           "gpu-model = ['NVIDIA H200', 'NVIDIA H100']\nwait = 0\ncertificate = '/host/certificate'\n");
  const Result<JobConfig> config = JobConfig::Read({user, directory_ + "/nothing", host});
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config.value().files(), (std::vector<std::string>{user, host}));
  EXPECT_EQ(config.value().Find("placer")->path, user);
  EXPECT_EQ(config.value().Find("gpus")->path, host);
  EXPECT_EQ(config.value().Find("gpus")->line, 4);

  JobOptions job;
  config.value().Complete(&job);
  EXPECT_EQ(job.placer, "unix:/user");
  EXPECT_EQ(job.share, 0.5);
  EXPECT_EQ(job.limit, 1);
  EXPECT_FALSE(job.same_server);
  EXPECT_EQ(job.gpus, 2U);
  EXPECT_EQ(job.processes, 9U);
  EXPECT_EQ(job.memory_bytes, uint64_t{3} << 30);
  EXPECT_EQ(job.models, (std::vector<std::string>{"NVIDIA H200", "NVIDIA H100"}));
  EXPECT_EQ(job.wait_ms, 0);

  job = {};
  job.share = 0.75;
  job.limit = 0.75;
  job.models = {"any"};
  setenv("TESSERA_PLACER", "unix:/environment", 1);
  config.value().Complete(&job);
  EXPECT_EQ(job.share, 0.75);
  EXPECT_EQ(job.limit, 0.75);
  EXPECT_EQ(job.models, std::vector<std::string>{"any"});
  EXPECT_EQ(job.placer, "");  // the environment names it
  job.placer = "unix:/option";
  config.value().Complete(&job);
  EXPECT_EQ(job.placer, "unix:/option");

  std::string certificate, key, authority;
  config.value().CompleteKeys(&certificate, &key, &authority);
  EXPECT_EQ(certificate, "/host/certificate");
  EXPECT_EQ(key, "/user/key");
  EXPECT_EQ(authority, "");
  certificate = "/option";
  key = "";
  setenv("TESSERA_KEY", "/environment", 1);
  config.value().CompleteKeys(&certificate, &key, &authority);
  EXPECT_EQ(certificate, "/option");
  EXPECT_EQ(key, "");
}

TEST_F(JobConfigTest, NoFileIsNoSetting) {
  const Result<JobConfig> config = JobConfig::Read({directory_ + "/nothing", directory_ + "/nothing/at/all"});
  ASSERT_TRUE(config.ok());
  JobOptions job;
  config.value().Complete(&job);
  EXPECT_TRUE(JobArguments(job).empty());
  EXPECT_TRUE(config.value().files().empty());
}

TEST_F(JobConfigTest, WhatIsWrongHasFileLineAndKey) {
  const std::pair<std::string, std::string> cases[] = {
      {"gpu-shar = 0.5", "there is no key 'gpu-shar': the nearest is 'gpu-share'"},
      {"help = true", "there is no key 'help'"},
      {"gpus = 'two'", "a text is no value of the key 'gpus', which takes a number"},
      {"gpus = 0", "the value of the key 'gpus' is none: --gpus"},
      {"gpus = 1.5", "'gpus'"},
      {"gpu-share = 2", "'2' is not SHARE or SHARE:LIMIT"},
      {"gpu-share = [ '1' ]", "a list is no value of the key 'gpu-share'"},
      {"gpu-mem = 20", "a number is no value of the key 'gpu-mem'"},
      {"gpu-mem = '20'", "a size with its unit"},
      {"wait = 5", "a time with its unit"},
      {"same-server = 'yes'", "a text is no value of the key 'same-server', which takes true or false"},
      {"gpu-model = true", "true or false is no value of the key 'gpu-model'"},
      {"gpu-model = ['']", "the text of the key 'gpu-model' is empty"},
      {"placer = ''", "the text of the key 'placer' is empty"},
      {"placer = 'pool.example'", "'pool.example' of the key 'placer' is no address"},
      {"placer = 5", "a number is no value of the key 'placer'"},
      {"key = true", "'key'"},
      {"placer = 'unix:/half", "the text of the key 'placer' has no closing quote"},
  };
  for (const auto& [text, why] : cases) {
    const std::string path = File("config", "# a comment\n" + text + "\n");
    const Result<JobConfig> config = JobConfig::Read({path});
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(config.status().message(), HasSubstr(why));
    EXPECT_TRUE(config.status().message().starts_with(path + ", line 2: ")) << config.status().message();
  }
}

TEST_F(JobConfigTest, FilesThatCannotBeRead) {
  EXPECT_THAT(JobConfig::Read({directory_}).status().message(), HasSubstr("is no ordinary file"));
  const std::string pipe = directory_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(JobConfig::Read({pipe}).status().message(), HasSubstr("is no ordinary file"));
  EXPECT_THAT(JobConfig::Read({File("long", std::string(70'000, '#'))}).status().message(), HasSubstr("is too long"));
  // Root may read everything.
  const uid_t self = geteuid();
  const auto become = [self](uid_t user) {
    if (self == 0) {
      ASSERT_EQ(seteuid(user), 0);
    }
  };
  const std::string path = File("private", "");
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  become(65534);
  EXPECT_EQ(JobConfig::Read({path}).status().code(), StatusCode::kPermissionDenied);
  become(0);
  // As of a HOME that is another's.
  ASSERT_EQ(chmod(directory_.c_str(), self == 0 ? 0700 : 0), 0);
  become(65534);
  const Result<JobConfig> of_another = JobConfig::Read({path});
  EXPECT_TRUE(of_another.ok()) << of_another.status().message();
  become(0);
  ASSERT_EQ(chmod(directory_.c_str(), 0700), 0);
}

TEST_F(JobConfigTest, TheUsersDirectoryBeforeTheHosts) {
  setenv("HOME", "/home/someone", 1);
  unsetenv("XDG_CONFIG_HOME");
  EXPECT_EQ(JobConfig::Paths(),
            (std::vector<std::string>{"/home/someone/.config/tessera/config.toml", "/etc/tessera/config.toml"}));
  setenv("XDG_CONFIG_HOME", "/config", 1);
  EXPECT_EQ(JobConfig::Paths().front(), "/config/tessera/config.toml");
  unsetenv("XDG_CONFIG_HOME");
  unsetenv("HOME");
  EXPECT_EQ(JobConfig::Paths(), std::vector<std::string>{"/etc/tessera/config.toml"});
}

}  // namespace
}  // namespace tessera
