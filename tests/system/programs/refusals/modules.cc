// Modules, libraries, links and user objects.
#include "objects.h"
#include "row.h"

namespace refusals {
namespace {

constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;
constexpr CUresult kHandle = CUDA_ERROR_INVALID_HANDLE;
constexpr CUresult kNotFound = CUDA_ERROR_NOT_FOUND;

CUresult FunctionOf(CUmodule module, const char* name) {
  CUfunction f;
  return cuModuleGetFunction(&f, module, name);
}

CUresult VariableOf(CUmodule module, const char* name) {
  CUdeviceptr p;
  size_t bytes;
  return cuModuleGetGlobal(&p, &bytes, module, name);
}

const Row kRows[] = {
    {"cuModuleGetFunction: name that is not there", "server", kNotFound, [] { return FunctionOf(Module(), "Nobody"); }},
    {"cuModuleGetFunction: module of another context", "calls/module.cc", CUDA_SUCCESS,
     [] { return FunctionOf(ModuleOf(OtherContext()), "Nothing"); }},
    {"cuModuleGetFunction: unloaded module", "call/call.cc", kHandle, [] { return FunctionOf(Gone<Module>(), "Nothing"); },
     kDangerous},
    {"cuModuleGetFunction: null", "call/call.cc", kHandle, [] { return FunctionOf(nullptr, "Nothing"); }},
    {"cuModuleGetGlobal: name that is not there", "server", kNotFound, [] { return VariableOf(Module(), "nobody"); }},
    {"cuModuleGetGlobal: a kernel's name", "server", kInvalid, [] { return VariableOf(Module(), "Nothing"); }},
    {"cuModuleGetGlobal: module of another context", "calls/module.cc", CUDA_SUCCESS,
     [] { return VariableOf(ModuleOf(OtherContext()), "variable"); }},
    {"cuModuleUnload: a second time", "call/call.cc", kHandle, [] { return cuModuleUnload(Gone<Module>()); }, kDangerous},
    {"cuModuleUnload: module of another context", "calls/module.cc", CUDA_SUCCESS,
     [] { return cuModuleUnload(ModuleOf(OtherContext())); }},
    {"cuModuleUnload: a library's module", "calls/module.cc", CUDA_ERROR_NOT_PERMITTED,
     [] {
       Library l;
       CUmodule m;
       CHECK_DRIVER(cuLibraryGetModule(&m, l));
       return cuModuleUnload(m);
     }},
    {"cuModuleLoadData: text that is no code", "code/image_load.cc", CUDA_ERROR_INVALID_IMAGE,
     [] { return cuModuleLoadData(Out<CUmodule>(), "this is not code of any kind"); }},
    {"cuModuleLoad: file that is not there", "code/image_load.cc", CUDA_ERROR_FILE_NOT_FOUND,
     [] { return cuModuleLoad(Out<CUmodule>(), "/nonexistent/file.cubin"); }},
    {"cuLibraryGetKernel: name that is not there", "server", kNotFound,
     [] { return cuLibraryGetKernel(Out<CUkernel>(), Library(), "Nobody"); }},
    {"cuLibraryGetGlobal: name that is not there", "server", kNotFound,
     [] { return cuLibraryGetGlobal(Out<CUdeviceptr>(), Out<size_t>(), Library(), "nobody"); }},
    {"cuLibraryGetManaged: variable that is not managed", "server", kNotFound,
     [] { return cuLibraryGetManaged(Out<CUdeviceptr>(), Out<size_t>(), Library(), "variable"); }},
    {"cuLibraryGetUnifiedFunction: name that is not there", "calls/library.cc", kInvalid,
     [] {
       Library l;
       void* f;
       return cuLibraryGetUnifiedFunction(&f, l, "Nobody");
     },
     kNeedsGpu},
    {"cuLibraryUnload: a second time", "call/call.cc", kHandle, [] { return cuLibraryUnload(Gone<Library>()); }, kDangerous},
    {"cuLibraryGetModule: without a context", "call/call.cc", CUDA_ERROR_INVALID_CONTEXT,
     [] {
       Library l;
       return With(nullptr, [&] { return cuLibraryGetModule(Out<CUmodule>(), l); });
     }},
    {"cuLibraryGetKernel: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Library l;
       return With(nullptr, [&] { return cuLibraryGetKernel(Out<CUkernel>(), l, "Nothing"); });
     }},
    {"cuLibraryLoadFromFile: file that is not there", "code/image_load.cc", CUDA_ERROR_FILE_NOT_FOUND,
     [] { return cuLibraryLoadFromFile(Out<CUlibrary>(), "/nonexistent/file.cubin", nullptr, nullptr, 0, nullptr, nullptr, 0); }},
    {"cuLinkAddData: destroyed link", "call/call.cc", kHandle,
     [] {
       CUlinkState link;
       CHECK_DRIVER(cuLinkCreate(0, nullptr, nullptr, &link));
       CHECK_DRIVER(cuLinkDestroy(link));
       return cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char*>(kPtx), sizeof(kPtx), "a", 0, nullptr, nullptr);
     },
     kDangerous},
    {"cuLinkAddFile: file that is not there", "calls/link.cc", CUDA_ERROR_FILE_NOT_FOUND,
     [] {
       CUlinkState link;
       CHECK_DRIVER(cuLinkCreate(0, nullptr, nullptr, &link));
       const CUresult result = cuLinkAddFile(link, CU_JIT_INPUT_PTX, "/nonexistent/file.ptx", 0, nullptr, nullptr);
       cuLinkDestroy(link);
       return result;
     }},
    {"cuLinkComplete: nothing was added", "server", CUDA_SUCCESS,
     [] {
       CUlinkState link;
       CHECK_DRIVER(cuLinkCreate(0, nullptr, nullptr, &link));
       void* out;
       size_t bytes;
       const CUresult result = cuLinkComplete(link, &out, &bytes);
       cuLinkDestroy(link);
       return result;
     },
     kNeedsGpu},
    {"cuUserObjectCreate: without its flag", "server", kInvalid,
     [] {
       CUuserObject o;
       return cuUserObjectCreate(
           &o, nullptr, [](void*) {}, 1, 0);
     }},
};

}  // namespace

std::span<const Row> ModuleRows() { return kRows; }

}  // namespace refusals
