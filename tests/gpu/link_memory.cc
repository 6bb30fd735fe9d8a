// Which of the memory that a program hands to cuLinkCreate and cuLinkAddData the driver looks at later, and whether the threads
// matter from which a link is made: each case in a process of its own, natively. Prints a line for each: "ok", or the signal that
// ended it and the piece that was touched.
//
//   g++ -std=c++17 -O1 -I/usr/local/cuda/include -o link_memory link_memory.cc -lcuda -lpthread && ./link_memory
//
// Every piece has pages of its own, which are taken away (no access) when the case says so.
#include <cuda.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>

namespace {

constexpr size_t kPage = 4096;
const char* const kPieces[] = {"info log", "error log", "options", "values", "name", "text"};
enum Piece { kInfo, kError, kNames, kValues, kName, kText, kPieceCount };

const char kMain[] =
    ".version 7.0\n.target sm_52\n.address_size 64\n.extern .func (.param .b32 r) twice(.param .b32 v);\n"
    ".visible .entry Run(.param .u64 p) {\n.reg .b32 %r<3>;\nmov.u32 %r1, 4;\n{\n.param .b32 v;\n.param .b32 r;\n"
    "st.param.b32 [v], %r1;\ncall.uni (r), twice, (v);\nld.param.b32 %r2, [r];\n}\nret;\n}\n";
const char kHelp[] =
    ".version 7.0\n.target sm_52\n.address_size 64\n.visible .func (.param .b32 r) twice(.param .b32 v) {\n.reg .b32 %r<3>;\n"
    "ld.param.b32 %r1, [v];\nadd.u32 %r2, %r1, %r1;\nst.param.b32 [r], %r2;\nret;\n}\n";

char* pieces[2][kPieceCount];  // of the two links of a case
const char* step = "start";

void OnFault(int signal, siginfo_t* info, void*) {
  const char* what = "no piece of ours";
  for (auto& link : pieces) {
    for (int i = 0; i < kPieceCount; ++i) {
      const char* at = static_cast<const char*>(info->si_addr);
      if (link[i] != nullptr && at >= link[i] && at < link[i] + kPage) what = kPieces[i];
    }
  }
  char line[200];
  const int bytes = std::snprintf(line, sizeof(line), "signal %d at %s: %s\n", signal, step, what);
  if (write(1, line, bytes) < 0) _exit(2);
  _exit(1);
}

void Take(int link, int piece) { mprotect(pieces[link][piece], kPage, PROT_NONE); }

struct Link {
  explicit Link(int number) : number(number) {
    for (char*& piece : pieces[number]) {
      piece = static_cast<char*>(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    }
    auto* names = reinterpret_cast<CUjit_option*>(pieces[number][kNames]);
    auto* values = reinterpret_cast<void**>(pieces[number][kValues]);
    const CUjit_option all[] = {CU_JIT_INFO_LOG_BUFFER,  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                                CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                                CU_JIT_LOG_VERBOSE,      CU_JIT_MAX_REGISTERS};
    std::memcpy(names, all, sizeof(all));
    values[0] = pieces[number][kInfo];
    values[1] = values[3] = reinterpret_cast<void*>(kPage);
    values[2] = pieces[number][kError];
    values[4] = reinterpret_cast<void*>(1);
    values[5] = reinterpret_cast<void*>(32);
  }
  void Create() {
    step = "cuLinkCreate";
    cuLinkCreate(6, reinterpret_cast<CUjit_option*>(pieces[number][kNames]), reinterpret_cast<void**>(pieces[number][kValues]),
                 &state);
  }
  void Add(const char* text) {
    step = "cuLinkAddData";
    std::strcpy(pieces[number][kText], text);
    std::strcpy(pieces[number][kName], "text.ptx");
    cuLinkAddData(state, CU_JIT_INPUT_PTX, pieces[number][kText], std::strlen(text) + 1, pieces[number][kName], 0, nullptr,
                  nullptr);
  }
  CUresult Complete() {
    step = "cuLinkComplete";
    void* image = nullptr;
    size_t bytes = 0;
    return cuLinkComplete(state, &image, &bytes);
  }
  void Destroy() {
    step = "cuLinkDestroy";
    cuLinkDestroy(state);
  }
  const int number;
  CUlinkState state = nullptr;
};

void Case(const char* name, const std::function<void()>& run) {
  std::printf("%s: ", name);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    struct sigaction action {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
    CUcontext context;
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS) _exit(3);
    cuCtxSetCurrent(context);
    run();
    std::printf("ok\n");
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) std::printf("signal %d\n", WTERMSIG(status));
  std::fflush(stdout);
}

}  // namespace

int main() {
  for (bool whole : {true, false}) {
    char name[120];
    for (int piece = 0; piece < kPieceCount; ++piece) {
      std::snprintf(name, sizeof(name), "%s, %s gone behind cuLinkAddData", whole ? "whole" : "symbol missing", kPieces[piece]);
      if (piece >= kNames && piece != kValues) {
        Case(name, [&] {
          Link link(0);
          link.Create();
          if (piece == kNames) Take(0, piece);
          link.Add(kMain);
          if (piece != kNames) Take(0, piece);
          link.Complete();
          link.Destroy();
        });
      }
      std::snprintf(name, sizeof(name), "%s, %s gone before cuLinkDestroy", whole ? "whole" : "symbol missing", kPieces[piece]);
      Case(name, [&] {
        Link link(0);
        link.Create();
        link.Add(kMain);
        if (whole) link.Add(kHelp);
        link.Complete();
        Take(0, piece);
        link.Destroy();
      });
      std::snprintf(name, sizeof(name), "%s, %s gone behind cuLinkDestroy, a second link", whole ? "whole" : "symbol missing",
                    kPieces[piece]);
      Case(name, [&] {
        Link link(0);
        link.Create();
        link.Add(kMain);
        if (whole) link.Add(kHelp);
        link.Complete();
        link.Destroy();
        Take(0, piece);
        Link second(1);
        second.Create();
        second.Add(kMain);
        second.Complete();
        second.Destroy();
      });
    }
    // As a server's threads do: made and destroyed on one, added to and completed on another.
    std::snprintf(name, sizeof(name), "%s, two threads, three links", whole ? "whole" : "symbol missing");
    Case(name, [&] {
      CUcontext context;
      cuCtxGetCurrent(&context);
      for (int i = 0; i < 3; ++i) {
        Link link(0);
        link.Create();
        std::thread([&] {
          cuCtxSetCurrent(context);
          link.Add(kMain);
          if (whole && i % 2 == 0) link.Add(kHelp);
          link.Complete();
        }).join();
        link.Destroy();
      }
    });
  }
  return 0;
}
