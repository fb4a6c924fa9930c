(** Values become integers on a public grid: clipped, divided by the step, rounded half to even. *)

From Coq Require Import ZArith QArith Qminmax Lia List.
Open Scope Z_scope.

(** Rounding half to even of n/d, executable. *)
Definition round_even (x : Q) : Z :=
  let n := Qnum x in
  let d := Zpos (Qden x) in
  let k := n / d in
  match Z.compare (2 * (n mod d)) d with
  | Lt => k
  | Gt => k + 1
  | Eq => if Z.even k then k else k + 1
  end.

(** What decides it: at most half a step away, and at a tie even. *)
Lemma round_even_spec x :
  let n := Qnum x in let d := Zpos (Qden x) in let k := round_even x in
  - d <= 2 * (n - k * d) <= d /\ (2 * (n - k * d) = d \/ 2 * (n - k * d) = - d -> Z.even k = true).
Proof.
  destruct x as [n p]. unfold round_even. simpl Qnum. simpl Qden. set (d := Zpos p).
  assert (0 < d) by (unfold d; lia).
  pose proof (Z.div_mod n d ltac:(lia)). pose proof (Z.mod_pos_bound n d ltac:(lia)).
  destruct (Z.compare_spec (2 * (n mod d)) d) as [E|E|E].
  - destruct (Z.even (n / d)) eqn:Ev.
    + split; [nia|auto].
    + split; [nia|]. intros _. rewrite Z.add_1_r, Z.even_succ, <- Z.negb_even, Ev. reflexivity.
  - split; [nia|]. intros [C|C]; exfalso; nia.
  - split; [nia|]. intros [C|C]; exfalso; nia.
Qed.

Theorem round_even_monotone x y : (x <= y)%Q -> round_even x <= round_even y.
Proof.
  intros L. pose proof (round_even_spec x) as [[X1 X2] X3]. pose proof (round_even_spec y) as [[Y1 Y2] Y3].
  unfold Qle in L.
  set (a := round_even x) in *. set (b := round_even y) in *.
  set (n := Qnum x) in *. set (m := Qnum y) in *. set (d := Zpos (Qden x)) in *. set (e := Zpos (Qden y)) in *.
  assert (Hd : 0 < d) by (unfold d; lia). assert (He : 0 < e) by (unfold e; lia). clearbody a b n m d e.
  destruct (Z.le_gt_cases a b) as [|G]; auto. exfalso.
  (* 2 n e >= (2a - 1) d e, 2 m d <= (2b + 1) d e, and a >= b + 1 force equality everywhere *)
  assert (P : 0 < d * e) by nia.
  assert (A1 : (2 * a - 1) * (d * e) <= 2 * (n * e)) by nia.
  assert (B1 : 2 * (m * d) <= (2 * b + 1) * (d * e)) by nia.
  assert (AB : (2 * a - 1) * (d * e) <= (2 * b + 1) * (d * e)) by lia.
  assert (a = b + 1) by nia. subst a.
  assert (2 * (n - (b + 1) * d) = - d) by nia.
  assert (2 * (m - b * e) = e) by nia.
  assert (E1 : Z.even (b + 1) = true) by auto. assert (E2 : Z.even b = true) by auto.
  rewrite Z.add_1_r, Z.even_succ, <- Z.negb_even, E2 in E1. discriminate.
Qed.

Theorem round_even_integer k : round_even (inject_Z k) = k.
Proof.
  unfold round_even. simpl. rewrite Z.mod_1_r, Z.div_1_r. reflexivity.
Qed.

Lemma round_even_eq x y : (x == y)%Q -> round_even x = round_even y.
Proof.
  intros E. apply Z.le_antisymm; apply round_even_monotone; rewrite E; apply Qle_refl.
Qed.

(** The grid of a column. An absent value stays absent. *)
Definition clip (low high x : Q) : Q := Qmax low (Qmin high x).

Definition to_grid (low high step : Q) (value : option Q) : option Z :=
  match value with
  | None => None
  | Some x => Some (round_even (Qred (clip low high x / step)))
  end.

Section Grid.
Variables (low high step : Q).
Hypotheses (ordered : (low <= high)%Q) (positive : (0 < step)%Q).

Definition least : Z := round_even (low / step).
Definition greatest : Z := round_even (high / step).

Lemma clip_range x : (low <= clip low high x <= high)%Q.
Proof.
  unfold clip. split; [apply Q.le_max_l|]. apply Q.max_lub; auto. apply Q.le_min_l.
Qed.

Lemma over_step x y : (x <= y)%Q -> (x / step <= y / step)%Q.
Proof.
  intros L. unfold Qdiv. apply Qmult_le_compat_r; auto. apply Qlt_le_weak, Qinv_lt_0_compat; auto.
Qed.

(** Theorem. Whatever the value, the integer lies between those of the bounds. *)
Theorem to_grid_in_bounds value k : to_grid low high step value = Some k -> least <= k <= greatest.
Proof.
  destruct value as [x|]; unfold to_grid; [|discriminate]. intros E.
  assert (K : round_even (Qred (clip low high x / step)) = k) by congruence. rewrite <- K. clear E K.
  rewrite (round_even_eq _ _ (Qred_correct _)). destruct (clip_range x) as [L H].
  split; (apply round_even_monotone, over_step; assumption).
Qed.

(** Theorem. Clipping and rounding commute, so clipping to wider bounds first changes nothing. *)
Theorem to_grid_is_clipped_rounding x :
  to_grid low high step (Some x) = Some (Z.max least (Z.min greatest (round_even (x / step)))).
Proof.
  unfold to_grid. f_equal. rewrite (round_even_eq _ (clip low high x / step) (Qred_correct _)). unfold clip, least, greatest.
  pose proof (round_even_monotone _ _ (over_step _ _ ordered)) as LH.
  destruct (Qlt_le_dec high x) as [H|H].
  - pose proof (round_even_monotone _ _ (over_step _ _ (Qlt_le_weak _ _ H))) as HX.
    rewrite (round_even_eq (Qmax low (Qmin high x) / step) (high / step)); [lia|].
    rewrite (Q.min_l high x) by (apply Qlt_le_weak; auto). rewrite (Q.max_r low high) by auto. reflexivity.
  - pose proof (round_even_monotone _ _ (over_step _ _ H)) as XH.
    destruct (Qlt_le_dec x low) as [L|L].
    + pose proof (round_even_monotone _ _ (over_step _ _ (Qlt_le_weak _ _ L))) as XL.
      rewrite (round_even_eq (Qmax low (Qmin high x) / step) (low / step)); [lia|].
      rewrite (Q.min_r high x) by auto. rewrite (Q.max_l low x) by (apply Qlt_le_weak; auto). reflexivity.
    + pose proof (round_even_monotone _ _ (over_step _ _ L)) as LX.
      rewrite (round_even_eq (Qmax low (Qmin high x) / step) (x / step)); [lia|].
      rewrite (Q.min_r high x) by auto. rewrite (Q.max_r low x) by auto. reflexivity.
Qed.

(** Theorem. A value on the grid and inside the bounds is itself. *)
Theorem to_grid_exact k : (low <= inject_Z k * step <= high)%Q -> to_grid low high step (Some (inject_Z k * step)%Q) = Some k.
Proof.
  intros [L H]. unfold to_grid. f_equal. rewrite (round_even_eq _ (inject_Z k)); [apply round_even_integer|].
  rewrite Qred_correct. unfold clip. rewrite (Q.min_r high) by auto. rewrite (Q.max_r low) by auto.
  field. intros C. rewrite C in positive. apply (Qlt_irrefl 0); auto.
Qed.
End Grid.
