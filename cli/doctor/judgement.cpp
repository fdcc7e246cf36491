// Decides which findings are problems, and how to fix each.
#include "cli/doctor/judgement.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string_view>

#include "base/counted.hpp"
#include "consensus/trust/trust.hpp"
#include "peer/host/network_options.hpp"
#include "peer/host/swarm_start.hpp"

namespace gv {
namespace {

/// A buffer should be this many times as large as the data in flight (docs/operations.md), because
/// the system's own overhead uses part of it.
constexpr double buffers_per_link = 4;
/// Even the smallest file occupies this many bytes on a disk.
constexpr std::uint64_t file_bytes_min = 4096;
/// Memory for a peer's libraries, sockets and small vectors, from docs/performance.md.
constexpr std::uint64_t peer_bytes = 64 << 20;
/// If a clock's error exceeds this, file times on two machines do not show which file is newer.
constexpr Duration clock_error_max = std::chrono::seconds(1);
/// A difference of up to this much between two clocks is harmless, because certificates and tickets
/// are valid for much longer.
constexpr std::uint64_t clock_apart_max_s = 60;

Diagnosis ok(std::string text) { return {.text = std::move(text)}; }
Diagnosis warning(std::string text, std::string remedy) {
  return {.health = Health::warning, .text = std::move(text), .remedy = std::move(remedy)};
}
Diagnosis error(std::string text, std::string remedy) {
  return {.health = Health::error, .text = std::move(text), .remedy = std::move(remedy)};
}

/// A size as text, for example "6.3 MB" or "900 kB".
std::string size_text(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.1f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.0f} kB", bytes / 1e3);
}
std::string size_text(std::uint64_t bytes) { return size_text(static_cast<double>(bytes)); }

/// A time span as text, for example "3 days", "5 hours" or "90 seconds".
std::string span_text(std::uint64_t length_s) {
  if (length_s >= 2 * 86'400) return fmt::format("{} days", length_s / 86'400);
  if (length_s >= 2 * 3600) return fmt::format("{} hours", length_s / 3600);
  if (length_s >= 120) return fmt::format("{} minutes", length_s / 60);
  return fmt::format("{} seconds", length_s);
}

/// The line about a handshake made with a ticket's keys.
Diagnosis judge_guest(const Handshake& handshake) {
  switch (handshake.outcome) {
    case Handshake::Outcome::admitted:
      return ok(
          fmt::format("{} is the peer that has made the ticket, and knows it; whether it was "
                      "used already shows when it is used",
                      handshake.address));
    case Handshake::Outcome::refused:
      return error(
          fmt::format("{} is the peer that should have made the ticket, and does not know it",
                      handshake.address),
          "ask for a new one: grapevine invite FOLDER");
    case Handshake::Outcome::unknown:
      break;
  }
  return error(
      fmt::format("{}: the peer there is not the one that has made the ticket", handshake.address),
      "start that peer again at its address, or ask for a ticket of another one");
}

std::string_view port_of(std::string_view address) {
  return address.substr(address.rfind(':') + 1);
}

/// The line about one of TCP's two buffer limits.
Diagnosis judge_buffer(std::string_view setting, const std::optional<BufferLimit>& limit,
                       double needed, const std::string& link) {
  if (!limit) return warning(fmt::format("{} cannot be read", setting), "");
  const std::string found =
      fmt::format("{} lets a connection have {}", setting, size_text(limit->most));
  if (static_cast<double>(limit->most) >= needed)
    return ok(fmt::format("{}, enough for {}", found, link));
  return warning(fmt::format("{}, and {} needs {}", found, link, size_text(needed)),
                 fmt::format("sysctl -w {}='{} {} {:.0f}'; for good: a line in /etc/sysctl.d",
                             setting, limit->least, limit->first, needed));
}

}  // namespace

Diagnosis judge(const FileMode& mode) {
  if (!mode.others_write) return ok(mode.path + ": only its owner can change it");
  return warning(fmt::format("{}: other users of this machine can change it", mode.path),
                 fmt::format("chmod go-w {}", mode.path));
}

Diagnosis judge(const ClockState& clock) {
  if (!clock.is_known) return ok("the system does not say whether its clock is set by others");
  if (!clock.is_synchronised) {
    return warning("nothing sets this machine's clock, so the times of its files may be off",
                   "timedatectl set-ntp true");
  }
  const double error_ms = 1e3 * seconds(clock.error);
  if (clock.error > clock_error_max) {
    return warning(fmt::format("this machine's clock may be off by {:.0f} ms", error_ms),
                   "timedatectl set-ntp true");
  }
  return ok(fmt::format("set by others, off by at most {:.0f} ms", error_ms));
}

Diagnosis judge(const TicketState& ticket) {
  if (ticket.expires_s <= ticket.now_s) {
    return error(fmt::format("the ticket was good until {}, and this clock shows {}",
                             time_text(ticket.expires_s), time_text(ticket.now_s)),
                 "ask for a new one (grapevine invite FOLDER), or set the clock");
  }
  const std::uint64_t left = ticket.expires_s - ticket.now_s;
  if (left > certificate_lifetime_s + clock_apart_max_s) {
    return warning(fmt::format("the ticket is good until {}, longer than any is made for, and this "
                               "clock shows {}: one of the two is wrong",
                               time_text(ticket.expires_s), time_text(ticket.now_s)),
                   "set the clock: timedatectl set-ntp true");
  }
  return ok(fmt::format("of the peer at {}, good for {} more", ticket.address, span_text(left)));
}

Diagnoses judge(const CertificateState& certificate) {
  Diagnoses found;
  if (certificate.seen_s > certificate.now_s + clock_apart_max_s) {
    found.push_back(error(fmt::format("another peer's clock has shown {}, and this one shows {}",
                                      time_text(certificate.seen_s), time_text(certificate.now_s)),
                          "set the clock that is wrong: timedatectl set-ntp true"));
  }
  const std::string again = certificate.inviter_command +
                            " at another peer, and join with that ticket and another --folder";
  if (certificate.expires_s == 0) {
    found.push_back(error("this peer has no certificate", again));
  } else if (certificate.expires_s <= certificate.now_s) {
    found.push_back(error(fmt::format("the certificate of {} was good until {}, and this clock "
                                      "shows {}",
                                      certificate.name, time_text(certificate.expires_s),
                                      time_text(certificate.now_s)),
                          again));
  } else {
    found.push_back(
        ok(fmt::format("{} is certified for {} more; others renew that while it takes "
                       "part",
                       certificate.name, span_text(certificate.expires_s - certificate.now_s))));
  }
  return found;
}

Diagnosis judge(const RelayedMember& member) {
  return warning(fmt::format("{} is reached through {}, which has less bandwidth for it",
                             member.name, member.relay),
                 "let one of the two be dialled: start it with --listen HOST:PORT --advertise "
                 "HOST:PORT and open that port and --lane-port");
}

Diagnosis judge(const PortState& port) {
  const std::string what = fmt::format("{} for {}", port.address, port.purpose);
  if (!port.unresolved.empty()) {
    return error(fmt::format("{}: {}", what, port.unresolved),
                 "write an address of this machine, as `ip address` lists them");
  }
  if (port.error == 0) return ok(what + " is free");
  if (port.is_ours) return ok(what + " is used by the peer of the given folder");
  const std::string said = fmt::format("{}: {}", what, std::strerror(port.error));
  switch (port.error) {
    case EADDRINUSE:
      return error(said, fmt::format("ss -ltnp 'sport = :{}' shows the program; end it, or take "
                                     "another port",
                                     port_of(port.address)));
    case EADDRNOTAVAIL:
      return error(said, "write an address of this machine, as `ip address` lists them");
    case EACCES:
      return error(said, "take a port from 1024 on");
    default:
      return error(said, "take another address or port");
  }
}

Diagnosis judge(const DescriptorLimit& limit) {
  const std::uint64_t needed = descriptors_for(limit.partners);
  const std::string found = fmt::format("a process may have {} open files", limit.most);
  const std::string remedy = "ulimit -n 65536; of a service: LimitNOFILE=65536";
  if (limit.most < descriptors_for(1)) {
    return error(
        fmt::format("{}, and a peer does not start with less than {}", found, descriptors_for(1)),
        remedy);
  }
  if (limit.most < needed) {
    return warning(
        fmt::format("{}, and lanes to all {} other peers need {}", found, limit.partners, needed),
        remedy);
  }
  return ok(fmt::format("{}, {} are needed", found, needed));
}

Diagnosis judge(const SharedMemoryState& memory) {
  if (memory.works) return ok("peers of this host can share memory");
  return warning("the system gives no sealed memory, so blocks to peers of this host are copied",
                 "allow memfd_create(2) in this container or sandbox, and more memory");
}

Diagnoses judge(const TcpBuffers& buffers) {
  const double held = buffers.bits_per_second / 8 * seconds(buffers.round_trip);
  const std::string link =
      fmt::format("{:.4g} Mbit/s over {:.3g} ms{}", buffers.bits_per_second / 1e6,
                  1e3 * seconds(buffers.round_trip), buffers.is_measured ? " (measured)" : "");
  const double needed = buffers_per_link * held;
  return {judge_buffer("net.ipv4.tcp_rmem", buffers.receive, needed, link),
          judge_buffer("net.ipv4.tcp_wmem", buffers.send, needed, link)};
}

Diagnoses judge(const ProcessorState& processor) {
  Diagnoses found;
  if (!processor.is_x86) {
    found.push_back(ok("no features to choose from on this kind of processor"));
  } else if (processor.has_avx512) {
    found.push_back(ok("has AVX-512, AVX2 and FMA"));
  } else if (processor.has_avx2) {
    found.push_back(ok("has AVX2 and FMA"));
  } else {
    found.push_back(warning("has no AVX2, so training uses the slower kernels of SSE",
                            "if this is a virtual machine, give it the host's model of processor"));
  }
  if (processor.threads > processor.usable) {
    found.push_back(
        warning(fmt::format("train.threads = {}, and this process may use {} processors",
                            processor.threads, processor.usable),
                fmt::format("set train.threads = {}", processor.usable)));
  } else {
    found.push_back(ok(fmt::format("{} for {}", counted(processor.usable, "processor"),
                                   counted(processor.threads, "training thread"))));
  }
  return found;
}

Diagnosis judge(const MemoryState& memory) {
  const double model = static_cast<double>(sizeof(float) * memory.parameters) * memory.copies;
  const double needed = model + static_cast<double>(peer_bytes);
  const std::string found =
      fmt::format("{} are available; {} parameters take {} in {:g} copies, with the program {}",
                  size_text(memory.available_bytes), memory.parameters, size_text(model),
                  memory.copies, size_text(needed));
  if (static_cast<double>(memory.available_bytes) >= needed) {
    return ok(found + ", without activations and data");
  }
  return error(found,
               "end other programs, take a smaller model, or cut it into stages (run.mode = "
               "\"pipeline\")");
}

Diagnosis judge(const DiskState& disk) {
  if (!disk.is_writable) {
    return error(
        disk.folder + ": this user cannot write there",
        fmt::format("chown {} to the user of the peer, or name another folder in run.folder",
                    disk.folder));
  }
  if (disk.checkpoints == 0) {
    const std::string free =
        fmt::format("{}: {} are free", disk.folder, size_text(disk.free_bytes));
    if (disk.free_bytes >= std::max(disk.checkpoint_bytes, file_bytes_min)) return ok(free);
    return error(free + ", too little for a checkpoint",
                 "free some space, or set run.folder to another disk");
  }
  const std::uint64_t needed = disk.checkpoint_bytes * disk.checkpoints + disk.log_bytes;
  const std::string found =
      fmt::format("{}: {} are free; {} checkpoints of {} and events take up to {}", disk.folder,
                  size_text(disk.free_bytes), disk.checkpoints, size_text(disk.checkpoint_bytes),
                  size_text(needed));
  const std::string remedy =
      "free some space, set run.folder to another disk, or lower checkpoint.keep or run.events_mib";
  if (disk.free_bytes < disk.checkpoint_bytes) return error(found, remedy);
  if (disk.free_bytes < needed) return warning(found, remedy);
  return ok(found);
}

Diagnoses judge_control_port(const Connection& connection) {
  using Outcome = Connection::Outcome;
  const std::string said = fmt::format("{}: {}", connection.address, connection.why);
  const std::string_view port = port_of(connection.address);
  switch (connection.outcome) {
    case Outcome::unresolved:
      return {error(said, "correct the host's name, or write its address")};
    case Outcome::refused:
      return {
          error(said, fmt::format("start the peer there with --listen, or take the port that its "
                                  "`grapevine status` shows instead of {}",
                                  port))};
    case Outcome::silent:
      return {
          error(said, fmt::format("let TCP port {} in through the firewall there, and start the "
                                  "peer with --listen",
                                  port))};
    case Outcome::unreachable:
      return {error(said, "mend the route to that host, as `ip route get` shows it")};
    case Outcome::connected:
      break;
  }
  Diagnoses found;
  if (connection.greets) {
    found.push_back(ok(connection.address + " answers as a control port does"));
  } else {
    found.push_back(error(connection.address + " answers, but not as a control port does",
                          "take the port that the peer listens on; lanes have another one"));
  }
  if (connection.round_trip) {
    found.push_back(ok(fmt::format("round trip {:.3g} ms", 1e3 * seconds(*connection.round_trip))));
  }
  return found;
}

Diagnosis judge_lane_port(const Connection& connection) {
  if (connection.outcome == Connection::Outcome::connected) {
    return ok(connection.address + " can be dialled");
  }
  return error(fmt::format("{}: {}", connection.address, connection.why),
               fmt::format("start the peer there with --lane-port {0}, and let TCP port {0} in "
                           "through its firewall",
                           port_of(connection.address)));
}

Diagnosis judge(const Handshake& handshake) {
  if (handshake.by_ticket) return judge_guest(handshake);
  switch (handshake.outcome) {
    case Handshake::Outcome::admitted:
      return ok(fmt::format("{} is {}, and lets this key in", handshake.address, handshake.name));
    case Handshake::Outcome::refused:
      return error(
          fmt::format("{} is {}, and does not let this key in", handshake.address, handshake.name),
          fmt::format("add this line to authorized_peers there, and send that peer SIGHUP: {}",
                      handshake.own_line));
    case Handshake::Outcome::unknown:
      break;
  }
  if (!handshake.wanted.empty()) {
    return error(
        fmt::format("{}: the peer there does not have the key that our allow-list gives {}",
                    handshake.address, handshake.wanted),
        "correct the address, the name or that line; without a name any peer is accepted");
  }
  return error(fmt::format("{}: the peer there has a key that is not on our allow-list ({} tried)",
                           handshake.address, handshake.tried),
               "add the line that keygen printed there to our authorized_peers");
}

Diagnosis judge(const PeerClock& clock) {
  // A peer may claim any time. A difference of 300 years and more has too many nanoseconds for a
  // Duration.
  using std::chrono::microseconds;
  const std::uint64_t apart_us = clock.theirs_us > clock.ours_us ? clock.theirs_us - clock.ours_us
                                                                 : clock.ours_us - clock.theirs_us;
  const auto error_max =
      std::chrono::duration_cast<microseconds>(clock_error_max + clock.uncertainty);
  if (apart_us <= static_cast<std::uint64_t>(error_max.count())) {
    return ok(fmt::format("equal to the clock there within {:.3g} ms",
                          1e3 * seconds(microseconds(apart_us) + clock.uncertainty)));
  }
  const std::string both =
      fmt::format("the clock there shows {}, and this one {}",
                  time_text(clock.theirs_us / 1'000'000), time_text(clock.ours_us / 1'000'000));
  const std::string remedy = "set the clock that is wrong: timedatectl set-ntp true";
  if (clock.has_certificates && apart_us > clock_apart_max_s * 1'000'000) {
    return error(both + ", so certificates expire at different times", remedy);
  }
  return warning(both + ", so times in logs and files cannot be compared", remedy);
}

Diagnosis judge(const LaneSpeed& speed) {
  std::string found = fmt::format("round trip {:.3g} ms, {}{:.3g} Mbit/s both ways at once",
                                  1e3 * seconds(speed.round_trip),
                                  speed.is_bounded ? "at least " : "", speed.bits_per_second / 1e6);
  if (speed.model_bytes > 0 && speed.bits_per_second > 0) {
    found += fmt::format("; the whole model takes {:.3g} s without a codec",
                         8 * static_cast<double>(speed.model_bytes) / speed.bits_per_second);
  }
  if (speed.is_bounded || speed.bits_per_second >= speed.expected_bits / 2) return ok(found);
  return warning(
      fmt::format("{}, and --link-mbit is {:g}", found, speed.expected_bits / 1e6),
      "stop other traffic on the way, mend the TCP buffers, or set codec = \"fp16\" in the "
      "config");
}

Diagnosis judge(const DialledBack& port) {
  const std::string what =
      fmt::format("TCP port {} of {} for {}", port.port, port.seen_as, port.purpose);
  if (port.is_elsewhere) {
    return error(what + " was reached from there, but another machine has it",
                 fmt::format("forward TCP port {} to this machine in the router before it, or say "
                             "with --advertise HOST:PORT where it is dialled",
                             port.port));
  }
  switch (port.outcome) {
    case DialOutcome::connected:
      return ok(what + " was reached from there");
    case DialOutcome::refused:
      return error(what + " was refused from there",
                   fmt::format("start the peer with that port, or forward TCP port {} to this "
                               "machine in the router before it",
                               port.port));
    case DialOutcome::not_asked:
    case DialOutcome::silent:
      return error(what + " did not answer from there",
                   fmt::format("nft add rule inet filter input tcp dport {} accept, and the same "
                               "in every firewall on the way",
                               port.port));
    case DialOutcome::unreachable:
      break;
  }
  return error(what + " cannot be reached from there",
               "mend the route from that host, as `ip route get` shows it there");
}

}  // namespace gv
