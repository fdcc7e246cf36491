// Makes, checks and maps sealed files, with memfd and mmap.
#include "net/sealed_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

namespace gv {
namespace {

constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// The type of the file system that the file is on; 0 if unknown.
auto file_system_of(const Descriptor& file) {
  struct statfs about {};
  return ::fstatfs(file.get(), &about) == 0 ? about.f_type : 0;
}

/// The file system of anonymous files with ordinary pages. Files with huge pages are on a different
/// one, where the system may lack a page during a read, which kills the reader.
auto ordinary_file_system() {
  static const auto type = file_system_of(Descriptor(::memfd_create("grapevine", MFD_CLOEXEC)));
  return type;
}

}  // namespace

Descriptor make_sealed_file(const char* name, std::size_t bytes) {
  Descriptor file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool made = file && ::ftruncate(file.get(), static_cast<off_t>(bytes)) == 0 &&
                    ::fcntl(file.get(), F_ADD_SEALS, seals) == 0;
  return made ? std::move(file) : Descriptor();
}

bool is_sealed_file(const Descriptor& file, std::size_t bytes) {
  struct stat about {};
  // The system may add seals of its own: with vm.memfd_noexec it adds F_SEAL_EXEC to every file.
  const int got = file ? ::fcntl(file.get(), F_GET_SEALS) : -1;
  return got >= 0 && (got & seals) == seals && ::fstat(file.get(), &about) == 0 &&
         static_cast<std::size_t>(about.st_size) == bytes && ordinary_file_system() != 0 &&
         file_system_of(file) == ordinary_file_system();
}

std::shared_ptr<std::byte> map_file(const Descriptor& file, std::size_t bytes, bool writable) {
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* memory = ::mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (memory == MAP_FAILED) return nullptr;
  return {static_cast<std::byte*>(memory), [bytes](std::byte* begin) { ::munmap(begin, bytes); }};
}

}  // namespace gv
