(** Integer Laplace noise (the two-sided geometric law) and its mechanism. *)

From Coq Require Import Reals Lra Lia List ZArith.
From Sfumato Require Import Dist Privacy Series.
Import ListNotations.
Open Scope R_scope.

(** P[Z = k] = (1 - q)/(1 + q) q^|k|, with q = e^(-1/scale). *)
Definition geometric_mass (q : R) (k : Z) : R := (1 - q) / (1 + q) * q ^ Z.abs_nat k.

Section Law.
Variable q : R.
Hypothesis q_range : 0 < q < 1.

Lemma head_pos : 0 < (1 - q) / (1 + q).
Proof. apply Rmult_lt_0_compat; [lra|]. apply Rinv_0_lt_compat. lra. Qed.

Lemma geometric_pos k : 0 < geometric_mass q k.
Proof. apply Rmult_lt_0_compat; [apply head_pos|]. apply pow_lt. lra. Qed.

Lemma geometric_mirror k : geometric_mass q (- k) = geometric_mass q k.
Proof. unfold geometric_mass. do 2 f_equal. lia. Qed.

Lemma geometric_right n : geometric_mass q (Z.of_nat n) = (1 - q) / (1 + q) * q ^ n.
Proof. unfold geometric_mass. do 2 f_equal. lia. Qed.

Lemma geometric_left n : geometric_mass q (-1 - Z.of_nat n) = (1 - q) / (1 + q) * q * q ^ n.
Proof. unfold geometric_mass. replace (Z.abs_nat (-1 - Z.of_nat n)) with (S n) by lia. simpl. ring. Qed.

Theorem geometric_sums_to_one : total (geometric_mass q) 1.
Proof.
  pose proof head_pos.
  replace 1 with ((1 - q) / (1 + q) / (1 - q) + (1 - q) / (1 + q) * q / (1 - q)) by (field; lra).
  apply total_integers.
  - apply (total_ext (fun n => (1 - q) / (1 + q) * q ^ n)); [intros; rewrite geometric_right; auto|].
    apply total_geometric; lra.
  - apply (total_ext (fun n => (1 - q) / (1 + q) * q * q ^ n)); [intros; rewrite geometric_left; auto|].
    apply total_geometric; nra.
Qed.

Definition geometric : law Z :=
  {| mass := geometric_mass q; mass_nonneg := fun k => Rlt_le _ _ (geometric_pos k); mass_total := geometric_sums_to_one |}.

(** The true value plus noise. *)
Definition noisy (x : Z) : law Z :=
  {| mass := fun y => geometric_mass q (y - x); mass_nonneg := fun y => Rlt_le _ _ (geometric_pos (y - x));
     mass_total := total_translate _ x _ geometric_sums_to_one |}.

Lemma pow_weaken m n : (m <= n)%nat -> q ^ n <= q ^ m.
Proof.
  intros L. replace n with (m + (n - m))%nat by lia. rewrite pow_add.
  assert (0 < q ^ m) by (apply pow_lt; lra).
  assert (q ^ (n - m) <= 1 ^ (n - m)) by (apply pow_incr; lra). rewrite pow1 in *. nra.
Qed.

(** Moving the centre by [d] changes no mass by more than q^-d. *)
Lemma noisy_shift x x' d y : (Z.abs_nat (x - x') <= d)%nat -> q ^ d * noisy x y <= noisy x' y.
Proof.
  intros L. simpl. unfold geometric_mass. pose proof head_pos.
  rewrite <- Rmult_assoc, (Rmult_comm (q ^ d)), Rmult_assoc, <- pow_add.
  apply Rmult_le_compat_l; [lra|]. apply pow_weaken. lia.
Qed.

(** Theorem. A query of sensitivity [d], with this noise, is (1/q)^d-private. *)
Theorem geometric_mechanism {Data} (near : Data -> Data -> Prop) (query : Data -> Z) d :
  (forall D D', near D D' -> (Z.abs_nat (query D - query D') <= d)%nat) ->
  private near ((/ q) ^ d) (fun D => noisy (query D)).
Proof.
  intros S D D' N y. pose proof (noisy_shift _ _ d y (S D D' N)).
  assert (0 < q ^ d) by (apply pow_lt; lra).
  rewrite pow_inv. apply (Rmult_le_reg_l (q ^ d)); auto.
  rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by lra. exact H.
Qed.

(** Theorem. And no smaller ratio holds where the sensitivity is attained. *)
Theorem geometric_mechanism_exact {Data} (near : Data -> Data -> Prop) (query : Data -> Z) d D D' r :
  near D D' -> Z.abs_nat (query D - query D') = d -> private near r (fun D => noisy (query D)) -> (/ q) ^ d <= r.
Proof.
  intros N E H. specialize (H D D' N (query D)). simpl in H. unfold geometric_mass in H. pose proof head_pos.
  rewrite Z.sub_diag, E in H. change (Z.abs_nat 0) with O in H. simpl in H. rewrite Rmult_1_r in H.
  assert (0 < q ^ d) by (apply pow_lt; lra). rewrite pow_inv.
  apply (Rmult_le_reg_r (q ^ d)); auto. rewrite Rinv_l by lra.
  apply (Rmult_le_reg_l ((1 - q) / (1 + q))); auto. nra.
Qed.

(** A vector of cells, with independent noise on each. *)
Fixpoint noisy_cells (xs ys : list Z) : R :=
  match xs, ys with
  | [], [] => 1
  | x :: xs, y :: ys => noisy x y * noisy_cells xs ys
  | _, _ => 0
  end.

Fixpoint distance (xs xs' : list Z) : nat :=
  match xs, xs' with
  | x :: xs, x' :: xs' => Z.abs_nat (x - x') + distance xs xs'
  | _, _ => 0
  end.

Lemma noisy_cells_nonneg xs ys : 0 <= noisy_cells xs ys.
Proof.
  revert ys. induction xs as [|x xs IH]; intros [|y ys]; cbn [noisy_cells]; try lra.
  apply Rmult_le_pos; [apply mass_nonneg|apply IH].
Qed.

(** Theorem. Only the sum of the changes of all cells matters. *)
Theorem geometric_cells xs xs' ys d : length xs = length xs' -> (distance xs xs' <= d)%nat ->
  noisy_cells xs ys <= (/ q) ^ d * noisy_cells xs' ys.
Proof.
  intros L D.
  assert (G : q ^ distance xs xs' * noisy_cells xs ys <= noisy_cells xs' ys).
  { clear D. revert xs' ys L. induction xs as [|x xs IH]; intros [|x' xs'] [|y ys] L; try discriminate; cbn [distance noisy_cells]; try lra.
    rewrite pow_add. replace (q ^ Z.abs_nat (x - x') * q ^ distance xs xs' * (noisy x y * noisy_cells xs ys))
      with (q ^ Z.abs_nat (x - x') * noisy x y * (q ^ distance xs xs' * noisy_cells xs ys)) by ring.
    assert (forall n, 0 <= q ^ n) by (intros; apply pow_le; lra).
    apply Rmult_le_compat.
    - apply Rmult_le_pos; auto using mass_nonneg.
    - apply Rmult_le_pos; auto using noisy_cells_nonneg.
    - apply noisy_shift. lia.
    - apply IH. simpl in L. congruence. }
  assert (0 < q ^ d) by (apply pow_lt; lra). pose proof (pow_weaken _ _ D). pose proof (noisy_cells_nonneg xs ys).
  rewrite pow_inv. apply (Rmult_le_reg_l (q ^ d)); auto. rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by lra.
  apply Rle_trans with (2 := G). apply Rmult_le_compat_r; auto.
Qed.

(** *** Tails *)

(** P[Z >= t] = q^t/(1 + q) for t >= 0. *)
Theorem geometric_tail t : (0 <= t)%Z -> chance geometric (fun z => (t <=? z)%Z) (q ^ Z.to_nat t / (1 + q)).
Proof.
  intros T. unfold chance. pose proof head_pos.
  replace (q ^ Z.to_nat t / (1 + q)) with (0 + (1 - q) / (1 + q) * q ^ Z.to_nat t / (1 - q) + 0) by (field; lra).
  apply total_integers.
  - set (f := fun n => if (t <=? Z.of_nat n)%Z then geometric (Z.of_nat n) else 0).
    assert (Z0 : sum f (seq 0 (Z.to_nat t)) = 0).
    { apply sum_zero. intros n H'. apply in_seq in H'. unfold f. destruct (Z.leb_spec t (Z.of_nat n)); [lia|reflexivity]. }
    rewrite <- Z0. apply total_from.
    + intros n. unfold f. destruct (t <=? Z.of_nat n)%Z; [apply mass_nonneg|lra].
    + apply (total_ext (fun n => (1 - q) / (1 + q) * q ^ Z.to_nat t * q ^ n)).
      { intros n. unfold f. destruct (Z.leb_spec t (Z.of_nat (Z.to_nat t + n))); [|lia].
        unfold geometric, mass. rewrite geometric_right, pow_add. ring. }
      apply total_geometric; [|lra]. apply Rmult_le_pos; [lra|]. apply pow_le. lra.
  - apply total_zero. intros n. destruct (Z.leb_spec t (-1 - Z.of_nat n)); [lia|reflexivity].
Qed.
End Law.

(** ** Truncation: clamping the noisy answer *)

Definition clamp (low high y : Z) : Z := Z.max low (Z.min high y).

(** Theorem. Clamping keeps privacy. *)
Theorem truncation_private {Data} (near : Data -> Data -> Prop) r (M : Data -> law Z) low high :
  0 <= r -> private near r M -> private near r (fun D => image Z.eq_dec Z.eq_dec (M D) (clamp low high)).
Proof. intros R0 H. apply post_processing; auto. Qed.

(** Theorem. And no answer becomes worse, for a true value inside the range. *)
Theorem truncation_accurate low high x y : (low <= x <= high)%Z -> (Z.abs (clamp low high y - x) <= Z.abs (y - x))%Z.
Proof. unfold clamp. lia. Qed.
