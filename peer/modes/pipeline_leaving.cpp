// Lets a peer leave a pipeline after it has handed over the stages that no other peer has.
#include <chrono>

#include "peer/modes/pipeline.hpp"

namespace gv {
namespace {

/// The longest time that a leaving peer stays because other peers still need something from it.
constexpr Duration hand_over_max = std::chrono::seconds(5);

}  // namespace

void PipelineMode::leave(Time now, Effects& out) {
  course_.leave();
  if (course_.phase() == Phase::done) {
    generations_.leave();
    abandon();
    return;
  }
  // Other peers may need a stage that no other peer has.
  handing_over_ = generations_.has_joined() && !course_.has_failed() &&
                  generations_.candidates().size() > 1 && step() > 0 && !carried_.empty();
  if (handing_over_) {
    hand_over_until_ = now + hand_over_max;
    generations_.agreement().set_leaving();
  }
  end_generation(now, out);
}

/// Continues to take part in ballots while we hand over, but leaves any generation that includes
/// us.
void PipelineMode::end_handing_over(Time now, Effects& out) {
  if (!handing_over_) return;
  generations_.agree(now, planner_, out);
  if (generations_.current() != nullptr)
    end_generation(now, out);  // This generation was agreed on before we left.
  if (generations_.candidates().size() < 2 || now >= hand_over_until_) handing_over_ = false;
}

/// Sends the present state of our stages to the peers that take them over.
void PipelineMode::hand_over() {
  const Generation* last_generation = generations_.agreement().last_generation();
  if (last_generation == nullptr) return;
  if (last_generation->key() != last_generation_key_) {
    last_generation_key_ = last_generation->key();
    due_.exports.clear();  // These exports belong to a ballot that failed.
    states_.enter(by_part(*last_generation));
    end_last_run(last_generation->version);
  }
  if (!states_.owes()) handing_over_ = false;
}

void PipelineMode::taken_over(PeerId peer, const StatusReply& here) {
  const Generation* last_generation = generations_.agreement().last_generation();
  if (last_generation != nullptr && here.ballot == last_generation->id) states_.taken_over(peer);
}

/// The generation for which our jobs work: our own, or the one to which we hand over.
const Generation* PipelineMode::served() const {
  if (handing_over_) return generations_.agreement().last_generation();
  return generations_.is_in_one() ? generations_.current() : nullptr;
}

}  // namespace gv
