// Reads and writes a peer's swarm files, including the file of certificates (one frame per line).
#include "peer/host/swarm_files.hpp"

#include <sodium.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "net/wire.hpp"
#include "peer/host/replace_file.hpp"

namespace gv {
namespace {

constexpr std::size_t certificates_bytes_max = std::size_t{8} << 20;
constexpr int frame_base64 = sodium_base64_VARIANT_ORIGINAL_NO_PADDING;

std::string frame_line(const Certificates& part) {
  const std::vector<std::byte> bytes = encode(Message(part));
  std::string line(sodium_base64_encoded_len(bytes.size(), frame_base64), '\0');
  sodium_bin2base64(line.data(), line.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                    bytes.size(), frame_base64);
  line.back() = '\n';  // Replaces the zero byte that libsodium adds.
  return line;
}

/// Decodes a line and adds its certificates to `files`. Returns false if the line is not a frame of
/// certificates.
bool read_line(std::string_view line, SwarmFiles& files) {
  std::vector<std::byte> bytes(frame_bytes_max);
  std::size_t length = 0;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), line.data(),
                        line.size(), nullptr, &length, nullptr, frame_base64) != 0) {
    return false;
  }
  const Decoded decoded = decode(std::span(bytes).first(length));
  const auto* message = decoded.frame ? std::get_if<Message>(&*decoded.frame) : nullptr;
  const auto* part = message == nullptr ? nullptr : std::get_if<Certificates>(message);
  if (part == nullptr) return false;
  std::ranges::copy(part->certificates, std::back_inserter(files.certificates));
  std::ranges::copy(part->revocations, std::back_inserter(files.revocations));
  return true;
}

/// The content of the file "data" if the program itself provides the data. Otherwise the file
/// contains the absolute path of a folder, or an empty line.
constexpr std::string_view in_program = "program";

}  // namespace

std::filesystem::path swarm_folder(const std::filesystem::path& run_folder) {
  return run_folder / "swarm";
}

bool has_swarm(const std::filesystem::path& run_folder) {
  std::error_code error;
  return std::filesystem::exists(swarm_folder(run_folder) / "certificates", error);
}

std::string certificates_text(const PublicKey& swarm, const std::vector<Certificate>& certificates,
                              const std::vector<Revocation>& revocations) {
  std::string text = "swarm " + to_text(swarm) + "\n";
  const Certificates whole{.held = {}, .certificates = certificates, .revocations = revocations};
  for (const Certificates& part : in_parts(whole)) text += frame_line(part);
  return text;
}

std::optional<SwarmFiles> certificates_from_text(std::string_view text) {
  constexpr std::string_view begin = "swarm ";
  SwarmFiles files;
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos || !text.starts_with(begin)) return std::nullopt;
  const auto swarm = public_key_from_text(text.substr(begin.size(), end - begin.size()));
  if (!swarm) return std::nullopt;
  files.swarm = *swarm;
  text.remove_prefix(end + 1);
  while (!text.empty()) {
    const std::size_t line_end = text.find('\n');
    // A truncated file is not trusted.
    if (line_end == std::string_view::npos || !read_line(text.substr(0, line_end), files)) {
      return std::nullopt;
    }
    text.remove_prefix(line_end + 1);
  }
  return files;
}

SwarmFiles read_swarm(const std::filesystem::path& run_folder) {
  const std::filesystem::path folder = swarm_folder(run_folder);
  std::ifstream in(folder / "certificates", std::ios::binary);
  std::string text(certificates_bytes_max + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  std::optional<SwarmFiles> files = certificates_from_text(text);
  if (!files || text.size() > certificates_bytes_max) {
    SwarmFiles failed;
    failed.problems.push_back({(folder / "certificates").string(), "is damaged",
                               "join again with a new ticket and another --folder"});
    return failed;
  }
  LoadedKeyPair key = load_key_pair(folder / "key");
  files->identity = key.pair;
  files->problems = std::move(key.problems);
  std::error_code error;
  if (std::filesystem::exists(folder / "swarm_key", error)) {
    LoadedKeyPair swarm_key = load_key_pair(folder / "swarm_key");
    std::ranges::copy(swarm_key.problems, std::back_inserter(files->problems));
    if (swarm_key.problems.empty()) files->swarm_key = swarm_key.pair;
  }
  return *files;
}

LoadedKeyPair keep_swarm_key(const std::filesystem::path& run_folder, const std::string& name) {
  const std::filesystem::path folder = swarm_folder(run_folder);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) {
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  }
  if (error) {
    return {.problems = {{folder.string(), "cannot be made: " + error.message(),
                          "choose another --folder"}}};
  }
  if (std::filesystem::exists(folder / name, error)) return load_key_pair(folder / name);
  LoadedKeyPair fresh{.pair = generate_key_pair()};
  fresh.problems = save_key_pair(folder / name, fresh.pair);
  return fresh;
}

bool write_certificates(const std::filesystem::path& run_folder, const PublicKey& swarm,
                        const std::vector<Certificate>& certificates,
                        const std::vector<Revocation>& revocations) {
  return replace_file(swarm_folder(run_folder) / "certificates",
                      certificates_text(swarm, certificates, revocations), Readers::owner,
                      Lasts::on_disk);
}

bool write_data_place(const std::filesystem::path& run_folder, const DataPlace& place) {
  std::string line;
  if (place.is_in_program) {
    line = in_program;
  } else if (!place.folder.empty()) {
    std::error_code error;
    line = std::filesystem::absolute(place.folder, error).string();
    if (error) return false;
  }
  return replace_file(swarm_folder(run_folder) / "data", line + "\n", Readers::owner);
}

DataPlace read_data_place(const std::filesystem::path& run_folder) {
  std::ifstream in(swarm_folder(run_folder) / "data");
  std::string line;
  std::getline(in, line);
  if (line == in_program) return {.folder = {}, .is_in_program = true};
  return {.folder = line.starts_with('/') ? line : std::string()};
}

}  // namespace gv
